//! libibverbs as it is called here: names, types and values, written by hand; the tests hold them against the headers, where
//! those are installed.
//!
//! Control calls are symbols of the library. The data path has none: `ibv_post_send`, `ibv_post_recv` and `ibv_poll_cq` are
//! inline functions that call through [`ContextOps`], whose layout is frozen.
#![allow(unsafe_code)]

/// Fills a struct from `name: type` pairs, each the symbol `prefix_name`.
macro_rules! symbols {
    ($(#[$meta:meta])* $table:ident, $prefix:literal, { $($name:ident: $type:ty,)* }) => {
        $(#[$meta])*
        pub(in crate::rdma) struct $table {
            $(pub(in crate::rdma) $name: $type,)*
        }

        impl $table {
            /// Looks all of them up.
            ///
            /// # Safety
            /// `library` is the one whose functions these are.
            pub(in crate::rdma) unsafe fn of(library: &Library) -> Result<Self, NoSymbol> {
                Ok(Self {
                    // SAFETY: the caller vouches for the library, whose headers declare these types.
                    $($name: unsafe { library.function::<$type>(&[concat!($prefix, stringify!($name))])? },)*
                })
            }
        }
    };
}

pub(super) mod cm;
#[cfg(test)]
mod layout;

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::library::{Library, NoSymbol};

/// `struct ibv_device`; never looked into.
#[repr(C)]
pub(super) struct Device {
    _opaque: [u8; 0],
}

/// The start of `struct ibv_context`; lives in memory that the library owns.
#[repr(C)]
pub(super) struct Context {
    pub(super) device: *mut Device,
    /// The data path.
    pub(super) ops: ContextOps,
}

/// `struct ibv_context_ops`.
#[repr(C)]
pub(super) struct ContextOps {
    _before_poll_cq: [*const c_void; 11],
    pub(super) poll_cq: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int,
    pub(super) req_notify_cq: unsafe extern "C" fn(*mut Cq, c_int) -> c_int,
    _before_post_send: [*const c_void; 12],
    pub(super) post_send: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int,
    pub(super) post_recv: unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int,
    _rest: [*const c_void; 5],
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub(super) struct CompChannel {
    _context: *mut Context,
    pub(super) fd: c_int,
    _refcnt: c_int,
}

/// `struct ibv_pd`; never looked into.
#[repr(C)]
pub(super) struct Pd {
    _opaque: [u8; 0],
}

/// `struct ibv_mr`.
#[repr(C)]
pub(super) struct Mr {
    _context: *mut Context,
    _pd: *mut Pd,
    _addr: *mut c_void,
    _length: usize,
    _handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// The start of `struct ibv_cq`.
#[repr(C)]
pub(super) struct Cq {
    pub(super) context: *mut Context,
}

/// The start of `struct ibv_qp`.
#[repr(C)]
pub(super) struct Qp {
    pub(super) context: *mut Context,
    _qp_context: *mut c_void,
    _pd: *mut Pd,
    _send_cq: *mut Cq,
    _recv_cq: *mut Cq,
    _srq: *mut c_void,
    _handle: u32,
    pub(super) qp_num: u32,
}

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Sge {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `struct ibv_send_wr`; of its unions only the form for RDMA.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SendWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut SendWr,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_uint,
    pub(super) send_flags: c_uint,
    pub(super) imm_data: u32,
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    pub(super) _rest: [u32; 19],
}

impl SendWr {
    /// Does nothing yet, with one part.
    pub(super) const EMPTY: Self = Self {
        wr_id: 0,
        next: std::ptr::null_mut(),
        sg_list: std::ptr::null_mut(),
        num_sge: 1,
        opcode: 0,
        send_flags: 0,
        imm_data: 0,
        remote_addr: 0,
        rkey: 0,
        _rest: [0; 19],
    };
}

/// `struct ibv_recv_wr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RecvWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut RecvWr,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wc {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    pub(super) opcode: c_int,
    pub(super) vendor_err: u32,
    pub(super) byte_len: u32,
    pub(super) imm_data: u32,
    pub(super) qp_num: u32,
    pub(super) src_qp: u32,
    pub(super) wc_flags: c_uint,
    _path: [u8; 8],
}

impl Wc {
    /// The number that the request was given.
    pub(super) fn id(&self) -> u64 {
        self.wr_id
    }

    /// Its status, if it failed.
    pub(super) fn failure(&self) -> Option<i32> {
        Some(self.status).filter(|&status| status != WC_SUCCESS)
    }

    /// The device's own word for it.
    pub(super) fn vendor_code(&self) -> u32 {
        self.vendor_err
    }

    /// Bytes of a message that arrived.
    pub(super) fn bytes(&self) -> u32 {
        self.byte_len
    }

    /// The number that came with a write of the peer's.
    pub(super) fn immediate(&self) -> Option<u32> {
        let is_write = self.opcode == WC_RECV_RDMA_WITH_IMM && self.wc_flags & WC_WITH_IMM != 0;
        // As it was on the wire.
        is_write.then(|| u32::from_be(self.imm_data))
    }
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct QpCap {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct QpInitAttr {
    pub(super) qp_context: *mut c_void,
    pub(super) send_cq: *mut Cq,
    pub(super) recv_cq: *mut Cq,
    pub(super) srq: *mut c_void,
    pub(super) cap: QpCap,
    pub(super) qp_type: c_int,
    pub(super) sq_sig_all: c_int,
}

/// `struct ibv_global_route`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub(super) struct GlobalRoute {
    pub(super) dgid: [u8; 16],
    pub(super) flow_label: u32,
    pub(super) sgid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
}

/// `struct ibv_ah_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct AhAttr {
    pub(super) grh: GlobalRoute,
    pub(super) dlid: u16,
    pub(super) sl: u8,
    pub(super) src_path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port_num: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct QpAttr {
    pub(super) qp_state: c_int,
    pub(super) cur_qp_state: c_int,
    pub(super) path_mtu: c_int,
    pub(super) path_mig_state: c_int,
    pub(super) qkey: u32,
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) dest_qp_num: u32,
    pub(super) qp_access_flags: c_uint,
    pub(super) cap: QpCap,
    pub(super) ah_attr: AhAttr,
    pub(super) alt_ah_attr: AhAttr,
    pub(super) pkey_index: u16,
    pub(super) alt_pkey_index: u16,
    pub(super) en_sqd_async_notify: u8,
    pub(super) sq_draining: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) port_num: u8,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) alt_port_num: u8,
    pub(super) alt_timeout: u8,
    pub(super) rate_limit: u32,
}

/// `struct ibv_device_attr`, as far as it is read; the gaps keep what is between.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DeviceAttr {
    pub(super) fw_ver: [u8; 64],
    _guids: [u64; 2],
    pub(super) max_mr_size: u64,
    _page_size_cap: u64,
    pub(super) vendor_id: u32,
    pub(super) vendor_part_id: u32,
    _hw_ver: u32,
    pub(super) max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    _device_cap_flags: c_uint,
    _max_sge: [c_int; 2],
    _max_cq: c_int,
    pub(super) max_cqe: c_int,
    pub(super) max_mr: c_int,
    _max_pd: c_int,
    pub(super) max_qp_rd_atom: c_int,
    _rest: [u8; 79],
    pub(super) phys_port_cnt: u8,
    _end: [u8; 4],
}

/// `struct ibv_port_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct PortAttr {
    pub(super) state: c_int,
    pub(super) max_mtu: c_int,
    pub(super) active_mtu: c_int,
    pub(super) gid_tbl_len: c_int,
    pub(super) port_cap_flags: u32,
    pub(super) max_msg_sz: u32,
    _counters: [u32; 2],
    _pkey_tbl_len: u16,
    pub(super) lid: u16,
    _sm_lid: u16,
    _lmc: [u8; 8],
    pub(super) link_layer: u8,
    pub(super) flags: u8,
    _port_cap_flags2: u16,
}

pub(super) const QPS_INIT: c_int = 1;
pub(super) const QPS_RTR: c_int = 2;
pub(super) const QPS_RTS: c_int = 3;
pub(super) const QPT_RC: c_int = 2;

pub(super) const WR_RDMA_WRITE: c_uint = 0;
pub(super) const WR_RDMA_WRITE_WITH_IMM: c_uint = 1;
pub(super) const WR_SEND: c_uint = 2;
pub(super) const WR_RDMA_READ: c_uint = 4;

pub(super) const SEND_SIGNALED: c_uint = 2;
pub(super) const SEND_INLINE: c_uint = 8;

pub(super) const ACCESS_LOCAL_WRITE: c_uint = 1;
pub(super) const ACCESS_REMOTE_WRITE: c_uint = 2;
pub(super) const ACCESS_REMOTE_READ: c_uint = 4;

pub(super) const QP_STATE: c_int = 1;
pub(super) const QP_ACCESS_FLAGS: c_int = 8;
pub(super) const QP_PKEY_INDEX: c_int = 0x10;
pub(super) const QP_PORT: c_int = 0x20;
pub(super) const QP_AV: c_int = 0x80;
pub(super) const QP_PATH_MTU: c_int = 0x100;
pub(super) const QP_TIMEOUT: c_int = 0x200;
pub(super) const QP_RETRY_CNT: c_int = 0x400;
pub(super) const QP_RNR_RETRY: c_int = 0x800;
pub(super) const QP_RQ_PSN: c_int = 0x1000;
pub(super) const QP_MAX_QP_RD_ATOMIC: c_int = 0x2000;
pub(super) const QP_MIN_RNR_TIMER: c_int = 0x8000;
pub(super) const QP_SQ_PSN: c_int = 0x1_0000;
pub(super) const QP_MAX_DEST_RD_ATOMIC: c_int = 0x2_0000;
pub(super) const QP_DEST_QPN: c_int = 0x10_0000;

pub(super) const PORT_ACTIVE: c_int = 4;
pub(super) const LINK_LAYER_ETHERNET: u8 = 2;
pub(super) const WC_SUCCESS: c_int = 0;
pub(super) const WC_WR_FLUSH_ERR: c_int = 5;
pub(super) const WC_RECV_RDMA_WITH_IMM: c_int = 129;
pub(super) const WC_WITH_IMM: c_uint = 2;

symbols! {
    /// The control path.
    Symbols, "ibv_", {
        get_device_list: unsafe extern "C" fn(*mut c_int) -> *mut *mut Device,
        free_device_list: unsafe extern "C" fn(*mut *mut Device),
        get_device_name: unsafe extern "C" fn(*mut Device) -> *const c_char,
        open_device: unsafe extern "C" fn(*mut Device) -> *mut Context,
        close_device: unsafe extern "C" fn(*mut Context) -> c_int,
        query_device: unsafe extern "C" fn(*mut Context, *mut DeviceAttr) -> c_int,
        query_port: unsafe extern "C" fn(*mut Context, u8, *mut PortAttr) -> c_int,
        query_gid: unsafe extern "C" fn(*mut Context, u8, c_int, *mut [u8; 16]) -> c_int,
        alloc_pd: unsafe extern "C" fn(*mut Context) -> *mut Pd,
        dealloc_pd: unsafe extern "C" fn(*mut Pd) -> c_int,
        reg_mr: unsafe extern "C" fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr,
        dereg_mr: unsafe extern "C" fn(*mut Mr) -> c_int,
        create_comp_channel: unsafe extern "C" fn(*mut Context) -> *mut CompChannel,
        destroy_comp_channel: unsafe extern "C" fn(*mut CompChannel) -> c_int,
        get_cq_event: unsafe extern "C" fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int,
        ack_cq_events: unsafe extern "C" fn(*mut Cq, c_uint),
        create_cq: unsafe extern "C" fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq,
        destroy_cq: unsafe extern "C" fn(*mut Cq) -> c_int,
        create_qp: unsafe extern "C" fn(*mut Pd, *mut QpInitAttr) -> *mut Qp,
        modify_qp: unsafe extern "C" fn(*mut Qp, *mut QpAttr, c_int) -> c_int,
        destroy_qp: unsafe extern "C" fn(*mut Qp) -> c_int,
        wc_status_str: unsafe extern "C" fn(c_int) -> *const c_char,
    }
}
