//! Connections that librdmacm makes: it finds the way and agrees on numbers; the queue pairs are ours.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dpb_core::Clock;
use dpb_core::patience::Silence;

use super::super::sys;
use super::super::sys::cm::{
    ConnParam, EVENT_ADDR_RESOLVED, EVENT_CONNECT_REQUEST, EVENT_CONNECT_RESPONSE,
    EVENT_ESTABLISHED, EVENT_ROUTE_RESOLVED, Event, EventChannel, Id, PS_TCP, SocketAddress,
    Symbols,
};
use super::{QueuePair, RNR_RETRIES, Retry, VerbsError};
use crate::library::Library;
use crate::readiness;

/// The time that each step may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time that the kernel's part may take, in milliseconds.
const RESOLVE_MS: c_int = 2000;

/// The library, or why it is not there.
fn symbols() -> Result<&'static Symbols, String> {
    static SYMBOLS: OnceLock<Result<Symbols, String>> = OnceLock::new();
    let load = || {
        // SAFETY: nothing else has this name; it loads libibverbs and nothing more.
        let library = unsafe { Library::open(&["librdmacm.so.1"]) }.map_err(|e| e.to_string())?;
        // SAFETY: this is librdmacm, whose functions these are.
        unsafe { Symbols::of(&library) }.map_err(|e| e.to_string())
    };
    SYMBOLS.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// The channel on which events arrive.
struct Channel {
    symbols: &'static Symbols,
    ptr: NonNull<EventChannel>,
}

// SAFETY: librdmacm may be called from any thread; an event is taken by whoever asks.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created by us, destroyed once; identifiers hold it and are gone.
        unsafe { (self.symbols.destroy_event_channel)(self.ptr.as_ptr()) }
    }
}

/// One end of a connection, or of many to come.
struct Identifier {
    channel: Arc<Channel>,
    ptr: NonNull<Id>,
}

// SAFETY: as for `Channel`.
unsafe impl Send for Identifier {}

impl Drop for Identifier {
    fn drop(&mut self) {
        // SAFETY: created by the library for us, destroyed once; its events were acknowledged.
        unsafe { (self.channel.symbols.destroy_id)(self.ptr.as_ptr()) };
    }
}

/// Waits for connections.
pub(in crate::rdma) struct Listener(Identifier);

/// A connection; the queue pair works as long as it is there.
pub(in crate::rdma) struct Connection {
    _identifier: Identifier,
}

impl Listener {
    /// Listens on this address.
    pub(in crate::rdma) fn bind(address: SocketAddr) -> Result<Self, String> {
        let identifier = Identifier::new()?;
        let symbols = identifier.channel.symbols;
        let mut address = socket_address(address);
        // SAFETY: the identifier lives; the address is as long as its family says.
        let code = unsafe { (symbols.bind_addr)(identifier.ptr.as_ptr(), &raw mut address) };
        check("rdma_bind_addr", code)?;
        // SAFETY: the identifier lives and is bound.
        let code = unsafe { (symbols.listen)(identifier.ptr.as_ptr(), 64) };
        check("rdma_listen", code)?;
        Ok(Self(identifier))
    }

    /// Takes the next connection, onto `pair`, with up to `reads` reads under way each way. Its patience is by `clock`.
    pub(in crate::rdma) fn accept(
        &self,
        pair: &mut QueuePair,
        reads: u8,
        clock: &dyn Clock,
    ) -> Result<Connection, String> {
        let requested = self.0.channel.next(EVENT_CONNECT_REQUEST, clock)?;
        let ptr = NonNull::new(requested).ok_or("rdma_cm: a request without an end")?;
        let channel = self.0.channel.clone();
        let identifier = Identifier { channel, ptr };
        identifier.ready(pair, reads)?;
        let mut parameters = parameters(pair, reads);
        // SAFETY: the identifier lives; the parameters have the library's layout.
        let code = unsafe {
            (identifier.channel.symbols.accept)(identifier.ptr.as_ptr(), &raw mut parameters)
        };
        check("rdma_accept", code)?;
        identifier.channel.next(EVENT_ESTABLISHED, clock)?;
        Ok(Connection {
            _identifier: identifier,
        })
    }
}

impl Connection {
    /// Connects `pair` to the listener at `address`, with up to `reads` reads under way each way. Its patience is by `clock`.
    pub(in crate::rdma) fn connect(
        address: SocketAddr,
        pair: &mut QueuePair,
        reads: u8,
        clock: &dyn Clock,
    ) -> Result<Self, String> {
        let identifier = Identifier::new()?;
        let (symbols, id) = (identifier.channel.symbols, identifier.ptr.as_ptr());
        let mut address = socket_address(address);
        // SAFETY: the identifier lives; the address is as long as its family says; none of ours is asked for.
        let code =
            unsafe { (symbols.resolve_addr)(id, ptr::null_mut(), &raw mut address, RESOLVE_MS) };
        check("rdma_resolve_addr", code)?;
        identifier.channel.next(EVENT_ADDR_RESOLVED, clock)?;
        // SAFETY: the identifier lives and has its address.
        check("rdma_resolve_route", unsafe {
            (symbols.resolve_route)(id, RESOLVE_MS)
        })?;
        identifier.channel.next(EVENT_ROUTE_RESOLVED, clock)?;
        let mut parameters = parameters(pair, reads);
        // SAFETY: the identifier lives; the parameters have the library's layout.
        check("rdma_connect", unsafe {
            (symbols.connect)(id, &raw mut parameters)
        })?;
        identifier.channel.next(EVENT_CONNECT_RESPONSE, clock)?;
        identifier.ready(pair, reads)?;
        // SAFETY: the identifier lives and has its answer.
        check("rdma_establish", unsafe { (symbols.establish)(id) })?;
        Ok(Self {
            _identifier: identifier,
        })
    }
}

impl Identifier {
    fn new() -> Result<Self, String> {
        let symbols = symbols()
            .map_err(|why| format!("needs librdmacm.so.1: {why}; apt-get install librdmacm1"))?;
        // SAFETY: no preconditions.
        let ptr = NonNull::new(unsafe { (symbols.create_event_channel)() });
        let ptr = ptr.ok_or_else(|| VerbsError::last("rdma_create_event_channel").to_string())?;
        let channel = Arc::new(Channel { symbols, ptr });
        let mut id = ptr::null_mut();
        // SAFETY: the channel lives, `id` is written; no cookie is needed.
        let code = unsafe {
            (symbols.create_id)(channel.ptr.as_ptr(), &raw mut id, ptr::null_mut(), PS_TCP)
        };
        check("rdma_create_id", code)?;
        let ptr = NonNull::new(id).ok_or("rdma_create_id gave nothing")?;
        Ok(Self { channel, ptr })
    }

    /// Takes `pair` to where it sends and receives, with what both ends agreed on.
    fn ready(&self, pair: &mut QueuePair, reads: u8) -> Result<(), String> {
        let text = |error: VerbsError| error.to_string();
        if !self.is_on_device_of(pair) {
            return Err("this address is on another device; name it with --device".into());
        }
        for state in [sys::QPS_INIT, sys::QPS_RTR, sys::QPS_RTS] {
            let mut attr = sys::QpAttr {
                qp_state: state,
                ..Default::default()
            };
            let mut mask = 0;
            // SAFETY: the identifier lives; both are written, in the library's layout.
            let code = unsafe {
                (self.channel.symbols.init_qp_attr)(self.ptr.as_ptr(), &raw mut attr, &raw mut mask)
            };
            check("rdma_init_qp_attr", code)?;
            attr.qp_access_flags |= sys::ACCESS_REMOTE_READ | sys::ACCESS_REMOTE_WRITE;
            attr.max_rd_atomic = reads;
            attr.max_dest_rd_atomic = reads;
            pair.modify(&mut attr, mask).map_err(text)?;
        }
        Ok(())
    }

    fn is_on_device_of(&self, pair: &QueuePair) -> bool {
        // SAFETY: the identifier lives; it is on a device once it has an address.
        let context = unsafe { (*self.ptr.as_ptr()).verbs };
        let Some(context) = NonNull::new(context) else {
            return false;
        };
        let ours = &pair.domain.context;
        // SAFETY: the library opened the context, and closes it after we are gone.
        let name = unsafe {
            CStr::from_ptr((ours.verbs.symbols.get_device_name)(
                context.as_ref().device,
            ))
        };
        name.to_string_lossy() == ours.name
    }
}

impl Channel {
    /// Waits for the event `expected`; gives the identifier that came with it.
    fn next(&self, expected: c_int, clock: &dyn Clock) -> Result<*mut Id, String> {
        self.wait(clock)?;
        let mut event: *mut Event = ptr::null_mut();
        // SAFETY: the channel lives, `event` is written.
        let code = unsafe { (self.symbols.get_cm_event)(self.ptr.as_ptr(), &raw mut event) };
        check("rdma_get_cm_event", code)?;
        // SAFETY: the library gave an event, ours until it is acknowledged.
        let (seen, status, id) = unsafe { ((*event).event, (*event).status, (*event).id) };
        // SAFETY: acknowledged once, and not looked at again.
        unsafe { (self.symbols.ack_cm_event)(event) };
        if seen == expected {
            return Ok(id);
        }
        // SAFETY: any number may be asked for; the answer is a constant of the library's.
        let text = unsafe { CStr::from_ptr((self.symbols.event_str)(seen)) };
        Err(format!(
            "rdma_cm: {} (status {status})",
            text.to_string_lossy()
        ))
    }

    /// Waits until there is an event.
    fn wait(&self, clock: &dyn Clock) -> Result<(), String> {
        // SAFETY: the channel lives, and its file with it, whose number is written once, when it is made.
        let file = unsafe { BorrowedFd::borrow_raw((*self.ptr.as_ptr()).fd) };
        let mut silence = Silence::default();
        loop {
            let left = PATIENCE.saturating_sub(silence.lasts(clock));
            if readiness::sleep(file, left) {
                return Ok(());
            }
            // After a signal: again, for the rest.
            if left.is_zero() {
                let seconds = PATIENCE.as_secs();
                return Err(format!("rdma_cm: nobody for {seconds} seconds"));
            }
        }
    }
}

fn check(call: &'static str, code: c_int) -> Result<(), String> {
    VerbsError::check(call, code).map_err(|error| error.to_string())
}

fn parameters(pair: &QueuePair, reads: u8) -> ConnParam {
    ConnParam {
        private_data: ptr::null(),
        private_data_len: 0,
        responder_resources: reads,
        initiator_depth: reads,
        flow_control: 0,
        retry_count: Retry::USUAL.count,
        rnr_retry_count: RNR_RETRIES,
        srq: 0,
        qp_num: pair.number(),
    }
}

fn socket_address(address: SocketAddr) -> SocketAddress {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    let mut bytes = [0; 24];
    let family = match address {
        SocketAddr::V4(v4) => {
            bytes[..4].copy_from_slice(&v4.ip().octets());
            AF_INET
        }
        SocketAddr::V6(v6) => {
            bytes[..4].copy_from_slice(&v6.flowinfo().to_be_bytes());
            bytes[4..20].copy_from_slice(&v6.ip().octets());
            bytes[20..].copy_from_slice(&v6.scope_id().to_ne_bytes());
            AF_INET6
        }
    };
    SocketAddress {
        family,
        port: address.port().to_be_bytes(),
        address: bytes,
    }
}
