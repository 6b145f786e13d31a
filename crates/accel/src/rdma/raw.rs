//! Handles over libibverbs. Each keeps what it was made from alive, so that they are destroyed in the right order whatever
//! order they are dropped in: queue pairs before completion queues and memory, these before protection domains, those before
//! the context.
//!
//! What a device may write is never behind a Rust reference meanwhile: [`Window`] gives bytes by atomic access only, and the
//! buffers of a [`copier::Copier`] belong to it until they are home.
#![allow(unsafe_code)]

mod chain;
pub(super) mod cm;
mod completions;
pub(super) mod copier;
mod memory;
pub(super) mod requests;

use std::ffi::{CStr, c_int};
use std::fmt;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use super::sys;
use crate::library::Library;

pub(super) use completions::CompletionQueue;
pub(super) use memory::{Access, Refused, Registered, Window};

/// A request that is over.
pub(super) use sys::Wc as Completion;

/// The library, loaded once.
pub(super) struct Verbs {
    symbols: sys::Symbols,
    /// The name by which it was loaded.
    name: String,
}

/// A call of the library's that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VerbsError {
    call: &'static str,
    /// The system's error number; zero if it gave none.
    errno: i32,
}

impl VerbsError {
    /// The error of a call that says no more than that it failed, and leaves the rest in `errno`.
    fn last(call: &'static str) -> Self {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self { call, errno }
    }

    /// The error of a call that returns the error number; some calls return -1 and leave it in `errno`.
    fn check(call: &'static str, code: c_int) -> Result<(), Self> {
        match code {
            0 => Ok(()),
            -1 => Err(Self::last(call)),
            errno => Err(Self { call, errno }),
        }
    }

    /// The system's error number.
    pub(super) fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for VerbsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        write!(f, "{}: {error}", self.call)
    }
}

impl std::error::Error for VerbsError {}

/// The library, or why it is not there.
pub(super) fn verbs() -> Result<&'static Verbs, String> {
    static VERBS: OnceLock<Result<Verbs, String>> = OnceLock::new();
    VERBS
        .get_or_init(Verbs::load)
        .as_ref()
        .map_err(Clone::clone)
}

impl Verbs {
    fn load() -> Result<Self, String> {
        // SAFETY: nothing else has this name; its initialisers only read the environment.
        let library = unsafe { Library::open(&["libibverbs.so.1"]) }.map_err(|e| e.to_string())?;
        // SAFETY: this is libibverbs, whose functions these are.
        let symbols = unsafe { sys::Symbols::of(&library) }.map_err(|e| e.to_string())?;
        Ok(Self {
            symbols,
            name: library.name().to_owned(),
        })
    }

    /// The file that it is, where the system says: its name ends in the version.
    pub(super) fn version(&self) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let path = maps.lines().find_map(|line| {
            let path = &line[line.find('/')?..];
            path.contains("/libibverbs.so").then(|| path.to_owned())
        });
        path.unwrap_or_else(|| self.name.clone())
    }

    /// A completion's status in the library's words.
    pub(super) fn status_text(&self, status: i32) -> String {
        // SAFETY: any number may be asked for; the answer is a constant of the library's.
        let text = unsafe { CStr::from_ptr((self.symbols.wc_status_str)(status)) };
        text.to_string_lossy().into_owned()
    }

    /// Names of all devices.
    pub(super) fn devices(&self) -> Result<Vec<String>, VerbsError> {
        let list = DeviceList::get(self)?;
        Ok(list
            .iter()
            .flat_map(DeviceList::iter)
            .map(|(name, _)| name)
            .collect())
    }
}

/// The error of the library where the kernel's part is not loaded.
const ENOSYS: i32 = 38;

/// The library's list of devices.
struct DeviceList<'a> {
    verbs: &'a Verbs,
    list: NonNull<*mut sys::Device>,
    count: usize,
}

impl<'a> DeviceList<'a> {
    /// `None` if the kernel has no verbs.
    fn get(verbs: &'a Verbs) -> Result<Option<Self>, VerbsError> {
        let mut count = 0;
        // SAFETY: `count` is valid for the call.
        let list = unsafe { (verbs.symbols.get_device_list)(&raw mut count) };
        let count = count as usize;
        match NonNull::new(list) {
            Some(list) => Ok(Some(Self { verbs, list, count })),
            None => match VerbsError::last("ibv_get_device_list") {
                error if error.errno == ENOSYS => Ok(None),
                error => Err(error),
            },
        }
    }

    fn iter(&self) -> impl Iterator<Item = (String, *mut sys::Device)> {
        (0..self.count).map(|i| {
            // SAFETY: the library's list has `count` devices, and lives as long as `self`.
            let device = unsafe { *self.list.as_ptr().add(i) };
            // SAFETY: a device of the list has a name that ends in a zero and lives as long as the list.
            let name = unsafe { CStr::from_ptr((self.verbs.symbols.get_device_name)(device)) };
            (name.to_string_lossy().into_owned(), device)
        })
    }
}

impl Drop for DeviceList<'_> {
    fn drop(&mut self) {
        // SAFETY: the list came from the library and is freed once; opened devices stay.
        unsafe { (self.verbs.symbols.free_device_list)(self.list.as_ptr()) }
    }
}

/// A device that is open.
pub(super) struct Context {
    verbs: &'static Verbs,
    ptr: NonNull<sys::Context>,
    name: String,
}

// SAFETY: libibverbs may be called from any thread at any time (its documentation, "thread safety"); so for all handles below.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// The attributes of a device.
#[derive(Clone, Debug)]
pub(super) struct DeviceAttributes {
    pub(super) firmware: String,
    pub(super) vendor_id: u32,
    pub(super) vendor_part_id: u32,
    pub(super) send_requests_max: u32,
    pub(super) completions_max: u32,
    pub(super) reads_max: u8,
    pub(super) ports: u8,
}

/// The attributes of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortAttributes {
    pub(super) is_active: bool,
    pub(super) is_ethernet: bool,
    /// 256 bytes times two to the power of one less.
    pub(super) mtu: u8,
    pub(super) lid: u16,
    pub(super) gids: u32,
    pub(super) message_bytes_max: u32,
}

impl Context {
    /// Opens the device called `name`; `None` if there is none.
    pub(super) fn open(verbs: &'static Verbs, name: &str) -> Result<Option<Arc<Self>>, VerbsError> {
        let list = DeviceList::get(verbs)?;
        let mut devices = list.iter().flat_map(DeviceList::iter);
        let Some((name, device)) = devices.find(|(known, _)| known == name) else {
            return Ok(None);
        };
        // SAFETY: the device is of a list that is still there.
        let ptr = unsafe { (verbs.symbols.open_device)(device) };
        let ptr = NonNull::new(ptr).ok_or_else(|| VerbsError::last("ibv_open_device"))?;
        Ok(Some(Arc::new(Self { verbs, ptr, name })))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn attributes(&self) -> Result<DeviceAttributes, VerbsError> {
        // SAFETY: the type is numbers only, for which zero is a value.
        let mut attr: sys::DeviceAttr = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open, `attr` has the library's layout.
        let code = unsafe { (self.verbs.symbols.query_device)(self.ptr.as_ptr(), &raw mut attr) };
        VerbsError::check("ibv_query_device", code)?;
        let firmware = attr.fw_ver.split(|&byte| byte == 0).next();
        Ok(DeviceAttributes {
            firmware: String::from_utf8_lossy(firmware.unwrap_or_default()).into_owned(),
            vendor_id: attr.vendor_id,
            vendor_part_id: attr.vendor_part_id,
            send_requests_max: attr.max_qp_wr.max(0) as u32,
            completions_max: attr.max_cqe.max(0) as u32,
            reads_max: attr.max_qp_rd_atom.clamp(0, 255) as u8,
            ports: attr.phys_port_cnt,
        })
    }

    pub(super) fn port(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        // Zeroed, because the exported function fills an older, shorter struct.
        let mut attr = sys::PortAttr::default();
        // SAFETY: the context is open, `attr` is at least as long as what is filled.
        let code =
            unsafe { (self.verbs.symbols.query_port)(self.ptr.as_ptr(), port, &raw mut attr) };
        VerbsError::check("ibv_query_port", code)?;
        Ok(PortAttributes {
            is_active: attr.state == sys::PORT_ACTIVE,
            is_ethernet: attr.link_layer == sys::LINK_LAYER_ETHERNET,
            mtu: attr.active_mtu.clamp(1, 5) as u8,
            lid: attr.lid,
            gids: attr.gid_tbl_len.max(0) as u32,
            message_bytes_max: attr.max_msg_sz,
        })
    }

    pub(super) fn gid(&self, port: u8, index: u8) -> Result<[u8; 16], VerbsError> {
        let mut gid = [0; 16];
        // SAFETY: the context is open, `gid` is as long as a GID.
        let code = unsafe {
            (self.verbs.symbols.query_gid)(self.ptr.as_ptr(), port, index.into(), &raw mut gid)
        };
        VerbsError::check("ibv_query_gid", code)?;
        Ok(gid)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once; everything made from it holds it and is gone.
        unsafe { (self.verbs.symbols.close_device)(self.ptr.as_ptr()) };
    }
}

/// The domain that queue pairs and memory must share to reach each other.
pub(super) struct ProtectionDomain {
    context: Arc<Context>,
    ptr: NonNull<sys::Pd>,
}

// SAFETY: as for `Context`.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as for `Context`.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    pub(super) fn new(context: &Arc<Context>) -> Result<Arc<Self>, VerbsError> {
        // SAFETY: the context is open.
        let ptr = unsafe { (context.verbs.symbols.alloc_pd)(context.ptr.as_ptr()) };
        let ptr = NonNull::new(ptr).ok_or_else(|| VerbsError::last("ibv_alloc_pd"))?;
        let context = context.clone();
        Ok(Arc::new(Self { context, ptr }))
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: allocated by us, freed once; everything made from it holds it and is gone.
        unsafe { (self.context.verbs.symbols.dealloc_pd)(self.ptr.as_ptr()) };
    }
}

/// The size of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    pub(super) sends: u32,
    pub(super) receives: u32,
    pub(super) inline_bytes: u32,
}

/// The way from a queue pair to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    /// The port of ours.
    pub(super) port: u8,
    /// The GID of ours, where the link has GIDs.
    pub(super) gid_index: Option<u8>,
    /// The MTU, as in [`PortAttributes::mtu`].
    pub(super) mtu: u8,
    /// First packet number that we send.
    pub(super) psn: u32,
    /// Reads that may be under way towards us.
    pub(super) reads: u8,
    pub(super) retry: Retry,
    pub(super) peer: RemotePair,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemotePair {
    pub(super) lid: u16,
    pub(super) gid: [u8; 16],
    pub(super) qp_num: u32,
    pub(super) psn: u32,
    /// Reads that may be under way towards it.
    pub(super) reads: u8,
}

/// A reliably connected queue pair.
pub(super) struct QueuePair {
    ptr: NonNull<sys::Qp>,
    domain: Arc<ProtectionDomain>,
    completions: [Arc<CompletionQueue>; 2],
    inline_bytes: u32,
}

// SAFETY: as for `Context`; `post` takes `&mut self` all the same.
unsafe impl Send for QueuePair {}

/// The times at which a packet that is not acknowledged is sent again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    /// After 4.096 microseconds times two to the power of this, at least.
    timeout: u8,
    /// The number of times; soft-RoCE takes seven for ever.
    count: u8,
}

impl Retry {
    /// After 67 milliseconds, seven times: perftest's.
    pub(super) const USUAL: Self = Self {
        timeout: 14,
        count: 7,
    };
    /// After half a second, six times: a peer that is gone is missed after seconds, whoever its device is, and one that is
    /// merely slow is not.
    pub(super) const BOUNDED: Self = Self {
        timeout: 17,
        count: 6,
    };
}

/// A receiver that has nothing posted is asked again for ever.
const RNR_RETRIES: u8 = 7;
/// 0.64 milliseconds.
const RNR_TIMER: u8 = 12;

impl QueuePair {
    /// A new one, not connected, with the completion queues of its sends and its receives; the device may give more room for
    /// inline data than `capacity` asks.
    pub(super) fn new(
        domain: &Arc<ProtectionDomain>,
        completions: [&Arc<CompletionQueue>; 2],
        capacity: Capacity,
    ) -> Result<Self, VerbsError> {
        let mut init = sys::QpInitAttr {
            qp_context: ptr::null_mut(),
            send_cq: completions[0].ptr.as_ptr(),
            recv_cq: completions[1].ptr.as_ptr(),
            srq: ptr::null_mut(),
            cap: sys::QpCap {
                max_send_wr: capacity.sends.max(1),
                max_recv_wr: capacity.receives.max(1),
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: capacity.inline_bytes,
            },
            qp_type: sys::QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: domain and completion queue live; `init` has the library's layout.
        let ptr =
            unsafe { (domain.context.verbs.symbols.create_qp)(domain.ptr.as_ptr(), &raw mut init) };
        let ptr = NonNull::new(ptr).ok_or_else(|| VerbsError::last("ibv_create_qp"))?;
        Ok(Self {
            ptr,
            domain: domain.clone(),
            completions: completions.map(Arc::clone),
            inline_bytes: init.cap.max_inline_data,
        })
    }

    /// Its number, by which peers reach it.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: the queue pair lives; its number is written once, when it is made.
        unsafe { (*self.ptr.as_ptr()).qp_num }
    }

    /// The longest message that travels inside a request: as the device gives, not as asked.
    pub(super) fn inline_bytes(&self) -> u32 {
        self.inline_bytes
    }

    /// Connects it: to INIT, to RTR, to RTS. Peers may read and write what memory they have keys for.
    pub(super) fn connect(&mut self, route: &Route) -> Result<(), VerbsError> {
        self.modify(
            &mut sys::QpAttr {
                qp_state: sys::QPS_INIT,
                port_num: route.port,
                qp_access_flags: sys::ACCESS_REMOTE_READ | sys::ACCESS_REMOTE_WRITE,
                ..Default::default()
            },
            sys::QP_STATE | sys::QP_PKEY_INDEX | sys::QP_PORT | sys::QP_ACCESS_FLAGS,
        )?;
        let grh = sys::GlobalRoute {
            dgid: route.peer.gid,
            sgid_index: route.gid_index.unwrap_or(0),
            hop_limit: 0xff,
            ..Default::default()
        };
        self.modify(
            &mut sys::QpAttr {
                qp_state: sys::QPS_RTR,
                path_mtu: route.mtu.into(),
                dest_qp_num: route.peer.qp_num,
                rq_psn: route.peer.psn,
                max_dest_rd_atomic: route.reads,
                min_rnr_timer: RNR_TIMER,
                ah_attr: sys::AhAttr {
                    grh,
                    dlid: route.peer.lid,
                    is_global: route.gid_index.is_some().into(),
                    port_num: route.port,
                    ..Default::default()
                },
                ..Default::default()
            },
            sys::QP_STATE
                | sys::QP_AV
                | sys::QP_PATH_MTU
                | sys::QP_DEST_QPN
                | sys::QP_RQ_PSN
                | sys::QP_MAX_DEST_RD_ATOMIC
                | sys::QP_MIN_RNR_TIMER,
        )?;
        self.modify(
            &mut sys::QpAttr {
                qp_state: sys::QPS_RTS,
                sq_psn: route.psn,
                timeout: route.retry.timeout,
                retry_cnt: route.retry.count,
                rnr_retry: RNR_RETRIES,
                max_rd_atomic: route.peer.reads.min(route.reads),
                ..Default::default()
            },
            sys::QP_STATE
                | sys::QP_SQ_PSN
                | sys::QP_TIMEOUT
                | sys::QP_RETRY_CNT
                | sys::QP_RNR_RETRY
                | sys::QP_MAX_QP_RD_ATOMIC,
        )
    }

    fn modify(&mut self, attr: &mut sys::QpAttr, mask: c_int) -> Result<(), VerbsError> {
        // SAFETY: the queue pair lives; `attr` has the library's layout, and what `mask` names is filled.
        let code =
            unsafe { (self.domain.context.verbs.symbols.modify_qp)(self.ptr.as_ptr(), attr, mask) };
        VerbsError::check("ibv_modify_qp", code)
    }

    /// Posts a chain of requests.
    ///
    /// # Safety
    /// `first` begins a chain of valid requests that ends in null; so do their lists of memory, which must be registered in
    /// this domain and stay so, unmoved and without a Rust reference that the device's access would break, until the
    /// request has completed or the queue pair is gone.
    #[inline]
    unsafe fn post_send(&mut self, first: *mut sys::SendWr) -> Result<(), VerbsError> {
        let qp = self.ptr.as_ptr();
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair lives, its context's slot is the provider's function; the caller vouches for the chain.
        let code = unsafe { ((*(*qp).context).ops.post_send)(qp, first, &raw mut bad) };
        VerbsError::check("ibv_post_send", code)
    }

    /// Posts room for messages to come.
    ///
    /// # Safety
    /// As for [`Self::post_send`].
    #[inline]
    unsafe fn post_receive(&mut self, first: *mut sys::RecvWr) -> Result<(), VerbsError> {
        let qp = self.ptr.as_ptr();
        let mut bad = ptr::null_mut();
        // SAFETY: as in `post_send`.
        let code = unsafe { ((*(*qp).context).ops.post_recv)(qp, first, &raw mut bad) };
        VerbsError::check("ibv_post_recv", code)
    }

    /// Ends it; afterwards the device touches nothing on its behalf. If the device refuses, it stays.
    fn destroy(self) -> Result<(), VerbsError> {
        let pair = std::mem::ManuallyDrop::new(self);
        pair.destroy_once()?;
        // SAFETY: read once; `pair` is never dropped.
        drop(unsafe {
            (
                ptr::read(&raw const pair.domain),
                ptr::read(&raw const pair.completions),
            )
        });
        Ok(())
    }

    /// Destroys it; to be called once.
    fn destroy_once(&self) -> Result<(), VerbsError> {
        // SAFETY: created by us; the callers see to it that this happens once.
        let code = unsafe { (self.domain.context.verbs.symbols.destroy_qp)(self.ptr.as_ptr()) };
        VerbsError::check("ibv_destroy_qp", code)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if let Err(error) = self.destroy_once() {
            eprintln!("dpb: {error}; the queue pair stays");
            // What it was made from must stay with it.
            std::mem::forget((self.domain.clone(), self.completions.clone()));
        }
    }
}
