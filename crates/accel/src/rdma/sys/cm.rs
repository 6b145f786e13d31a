//! librdmacm as it is called here.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use super::{Context, QpAttr};
use crate::library::{Library, NoSymbol};

/// `struct rdma_event_channel`.
#[repr(C)]
pub(in crate::rdma) struct EventChannel {
    pub(in crate::rdma) fd: c_int,
}

/// The start of `struct rdma_cm_id`.
#[repr(C)]
pub(in crate::rdma) struct Id {
    pub(in crate::rdma) verbs: *mut Context,
}

/// `struct rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::rdma) struct ConnParam {
    pub(in crate::rdma) private_data: *const c_void,
    pub(in crate::rdma) private_data_len: u8,
    pub(in crate::rdma) responder_resources: u8,
    pub(in crate::rdma) initiator_depth: u8,
    pub(in crate::rdma) flow_control: u8,
    pub(in crate::rdma) retry_count: u8,
    pub(in crate::rdma) rnr_retry_count: u8,
    pub(in crate::rdma) srq: u8,
    pub(in crate::rdma) qp_num: u32,
}

/// The start of `struct rdma_cm_event`.
#[repr(C)]
pub(in crate::rdma) struct Event {
    pub(in crate::rdma) id: *mut Id,
    _listen_id: *mut Id,
    pub(in crate::rdma) event: c_int,
    pub(in crate::rdma) status: c_int,
}

/// `struct sockaddr_in`, or `struct sockaddr_in6`: they differ behind the port. Aligned as C does.
#[repr(C, align(4))]
pub(in crate::rdma) struct SocketAddress {
    pub(in crate::rdma) family: u16,
    /// Big endian.
    pub(in crate::rdma) port: [u8; 2],
    /// The address; of IPv6 behind its flow.
    pub(in crate::rdma) address: [u8; 24],
}

pub(in crate::rdma) const PS_TCP: c_int = 0x0106;
pub(in crate::rdma) const EVENT_ADDR_RESOLVED: c_int = 0;
pub(in crate::rdma) const EVENT_ROUTE_RESOLVED: c_int = 2;
pub(in crate::rdma) const EVENT_CONNECT_REQUEST: c_int = 4;
pub(in crate::rdma) const EVENT_CONNECT_RESPONSE: c_int = 5;
pub(in crate::rdma) const EVENT_ESTABLISHED: c_int = 9;

symbols! {
    /// Functions that connect. `init_qp_attr` and `establish` are for queue pairs that the library does not own: since rdma-core 23.
    Symbols, "rdma_", {
        create_event_channel: unsafe extern "C" fn() -> *mut EventChannel,
        destroy_event_channel: unsafe extern "C" fn(*mut EventChannel),
        create_id: unsafe extern "C" fn(*mut EventChannel, *mut *mut Id, *mut c_void, c_int) -> c_int,
        destroy_id: unsafe extern "C" fn(*mut Id) -> c_int,
        bind_addr: unsafe extern "C" fn(*mut Id, *mut SocketAddress) -> c_int,
        listen: unsafe extern "C" fn(*mut Id, c_int) -> c_int,
        resolve_addr: unsafe extern "C" fn(*mut Id, *mut SocketAddress, *mut SocketAddress, c_int) -> c_int,
        resolve_route: unsafe extern "C" fn(*mut Id, c_int) -> c_int,
        init_qp_attr: unsafe extern "C" fn(*mut Id, *mut QpAttr, *mut c_int) -> c_int,
        connect: unsafe extern "C" fn(*mut Id, *mut ConnParam) -> c_int,
        accept: unsafe extern "C" fn(*mut Id, *mut ConnParam) -> c_int,
        establish: unsafe extern "C" fn(*mut Id) -> c_int,
        get_cm_event: unsafe extern "C" fn(*mut EventChannel, *mut *mut Event) -> c_int,
        ack_cm_event: unsafe extern "C" fn(*mut Event) -> c_int,
        event_str: unsafe extern "C" fn(c_int) -> *const c_char,
    }
}
