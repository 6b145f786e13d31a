//! Up to 2.2: contexts, work queues, and jobs, whose layouts are part of the interface.

use std::ffi::{c_int, c_void};

use super::{Buf, Code, Ctx, Data, Dev, DevInfo, Engine, Inventory, Mmap, opaque, table};

opaque! {
    /// `struct doca_workq`.
    Workq;
    /// `struct doca_regex_mempool`.
    Pool;
}

/// `struct doca_job`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::doca) struct Base {
    pub(in crate::doca) kind: c_int,
    pub(in crate::doca) flags: c_int,
    pub(in crate::doca) ctx: *mut Ctx,
    pub(in crate::doca) user_data: Data,
}

/// `struct doca_event`; `result` holds a code, and of a search where it reported to.
#[repr(C)]
pub(in crate::doca) struct Event {
    pub(in crate::doca) kind: c_int,
    pub(in crate::doca) user_data: Data,
    pub(in crate::doca) result: Data,
}

/// `struct doca_dma_job_memcpy`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::doca) struct Memcpy {
    pub(in crate::doca) base: Base,
    pub(in crate::doca) dst: *mut Buf,
    pub(in crate::doca) src: *const Buf,
}

/// `struct doca_compress_deflate_job`, for either direction.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::doca) struct Deflate {
    pub(in crate::doca) base: Base,
    pub(in crate::doca) dst: *mut Buf,
    pub(in crate::doca) src: *const Buf,
    pub(in crate::doca) checksums: *mut u64,
}

/// `struct doca_sha_job`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::doca) struct Sha {
    pub(in crate::doca) base: Base,
    pub(in crate::doca) src: *mut Buf,
    pub(in crate::doca) dst: *mut Buf,
    pub(in crate::doca) flags: u64,
}

/// `struct doca_regex_job_search`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::doca) struct Search {
    pub(in crate::doca) base: Base,
    pub(in crate::doca) groups: [u16; 4],
    pub(in crate::doca) src: *const Buf,
    pub(in crate::doca) report: *mut Report,
    pub(in crate::doca) may_wait: u8,
}

/// `struct doca_regex_search_result`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::doca) struct Report {
    pub(in crate::doca) status: u64,
    pub(in crate::doca) detected: u32,
    pub(in crate::doca) count: u32,
    pub(in crate::doca) matches: *mut Match,
    pub(in crate::doca) pool: *mut Pool,
}

/// `struct doca_regex_match`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::doca) struct Match {
    pub(in crate::doca) next: *mut Match,
    pub(in crate::doca) start: u32,
    pub(in crate::doca) rule: u32,
    pub(in crate::doca) len: u32,
}

/// `DOCA_REGEX_STATUS_MAX_MATCH`.
pub(in crate::doca) const STATUS_MAX_MATCH: u64 = 1 << 3;
/// `DOCA_REGEX_STATUS_CQE_FAILURE_INVALID_JOB`.
pub(in crate::doca) const STATUS_INVALID_JOB: u64 = 1 << 5;

pub(in crate::doca) const REGEX_SEARCH: c_int = (6 << 16) + 1;
pub(in crate::doca) const DMA_MEMCPY: c_int = (1 << 16) + 1;
pub(in crate::doca) const SHA1: c_int = (9 << 16) + 1;
pub(in crate::doca) const SHA256: c_int = (9 << 16) + 2;
pub(in crate::doca) const SHA512: c_int = (9 << 16) + 3;
pub(in crate::doca) const COMPRESS_DEFLATE: c_int = (10 << 16) + 1;
pub(in crate::doca) const DECOMPRESS_DEFLATE: c_int = (10 << 16) + 2;

/// `enum doca_X_job_types`, of which DOCA makes one for each engine.
pub(in crate::doca) type JobType = c_int;

table! {
    /// Functions of libdoca_common.
    Jobs {
        mmap_create: ["doca_mmap_create"] fn(*const Data, *mut *mut Mmap) -> Code;
        inventory_create: ["doca_buf_inventory_create"] fn(*const Data, usize, u32, *mut *mut Inventory) -> Code;
        ctx_dev_add: ["doca_ctx_dev_add"] fn(*mut Ctx, *mut Dev) -> Code;
        ctx_dev_rm: ["doca_ctx_dev_rm"] fn(*mut Ctx, *mut Dev) -> Code;
        ctx_workq_add: ["doca_ctx_workq_add"] fn(*mut Ctx, *mut Workq) -> Code;
        ctx_workq_rm: ["doca_ctx_workq_rm"] fn(*mut Ctx, *mut Workq) -> Code;
        workq_create: ["doca_workq_create"] fn(u32, *mut *mut Workq) -> Code;
        workq_destroy: ["doca_workq_destroy"] fn(*mut Workq) -> Code;
        workq_submit: ["doca_workq_submit"] fn(*mut Workq, *const Base) -> Code;
        workq_progress: ["doca_workq_progress_retrieve"] fn(*mut Workq, *mut Event, c_int) -> Code;
    }
}

table! {
    /// Functions of every engine's library.
    Create {
        create: ["doca_X_create"] fn(*mut *mut Engine) -> Code;
    }
}

table! {
    /// Functions of DMA's library.
    MemcpyLimits {
        is_supported: ["doca_dma_job_get_supported"] fn(*mut DevInfo, JobType) -> Code;
        max_buf_size: ["doca_dma_get_max_buf_size"] fn(*const DevInfo, *mut u64) -> Code;
    }
}

table! {
    /// Functions of the compression engine's library.
    DeflateLimits {
        is_supported: ["doca_compress_job_get_supported"] fn(*mut DevInfo, JobType) -> Code;
        max_buf_size: ["doca_compress_get_max_buf_size"] fn(*const DevInfo, JobType, *mut u64) -> Code;
    }
}

table! {
    /// Functions of libdoca_sha, which computes in software where there is no engine.
    ShaLimits {
        is_supported: ["doca_sha_job_get_supported"] fn(*const DevInfo, JobType) -> Code;
        max_buf_size: ["doca_sha_get_max_src_buffer_size"] fn(*const DevInfo, *mut u64) -> Code;
        is_in_hardware: ["doca_sha_get_hardware_supported"] fn(*const DevInfo) -> Code;
    }
}

table! {
    /// Functions that search for regular expressions.
    Searching {
        is_supported: ["doca_regex_job_get_supported"] fn(*const DevInfo, JobType) -> Code;
        is_in_hardware: ["doca_regex_get_hardware_supported"] fn(*const DevInfo) -> Code;
        max_buf_size: ["doca_regex_get_maximum_non_huge_job_size"] fn(*const DevInfo, *mut u64) -> Code;
        set_rules: ["doca_regex_set_hardware_uncompiled_rules"] fn(*mut Engine, *const c_void, usize) -> Code;
        set_pool_size: ["doca_regex_set_workq_matches_memory_pool_size"] fn(*mut Engine, u32) -> Code;
        give_back: ["doca_regex_mempool_put_obj"] fn(*mut Pool, *mut c_void);
    }
}
