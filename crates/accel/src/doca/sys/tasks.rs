//! From 2.5 on: contexts, progress engines, tasks.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::{Buf, Code, Ctx, Data, Dev, DevInfo, Engine, Inventory, Mmap, opaque, table};

opaque! {
    /// `struct doca_pe`.
    Pe;
    /// `struct doca_task`.
    Task;
    /// `struct doca_X_task_Y`.
    EngineTask;
    /// `struct doca_aes_gcm_key`.
    Key;
    /// `struct doca_ec_matrix`.
    Matrix;
}

/// The function that DOCA calls when a task ends, with the task, its user data and its context's user data.
pub(in crate::doca) type Callback = unsafe extern "C" fn(*mut EngineTask, Data, Data);

/// `enum doca_ctx_states`.
pub(in crate::doca) type CtxState = c_int;
/// `enum doca_sha_algorithm`.
pub(in crate::doca) type Algorithm = u32;
/// `enum doca_aes_gcm_key_type`.
pub(in crate::doca) type KeyType = u32;

/// `enum doca_ec_matrix_type`.
pub(in crate::doca) type MatrixType = u32;

/// `DOCA_CTX_STATE_IDLE`.
pub(in crate::doca) const IDLE: CtxState = 0;
/// `DOCA_CTX_STATE_RUNNING`.
pub(in crate::doca) const RUNNING: CtxState = 2;
/// `DOCA_SHA_ALGORITHM_SHA1`.
pub(in crate::doca) const SHA1: Algorithm = 0;
/// `DOCA_SHA_ALGORITHM_SHA256`.
pub(in crate::doca) const SHA256: Algorithm = 1;
/// `DOCA_SHA_ALGORITHM_SHA512`.
pub(in crate::doca) const SHA512: Algorithm = 2;
/// `DOCA_AES_GCM_KEY_128`.
pub(in crate::doca) const KEY_128: KeyType = 1;
/// `DOCA_AES_GCM_KEY_256`.
pub(in crate::doca) const KEY_256: KeyType = 2;
/// `DOCA_EC_MATRIX_TYPE_CAUCHY`.
pub(in crate::doca) const CAUCHY: MatrixType = 1;
/// A flag of `doca_task_submit_ex`: the task waits for `doca_ctx_flush_tasks`.
pub(in crate::doca) const SUBMIT_UNFLUSHED: u32 = 0;

table! {
    /// Functions of libdoca_common.
    Tasks {
        mmap_create: ["doca_mmap_create"] fn(*mut *mut Mmap) -> Code;
        inventory_create: ["doca_buf_inventory_create"] fn(usize, *mut *mut Inventory) -> Code;
        pe_create: ["doca_pe_create"] fn(*mut *mut Pe) -> Code;
        pe_destroy: ["doca_pe_destroy"] fn(*mut Pe) -> Code;
        pe_connect_ctx: ["doca_pe_connect_ctx"] fn(*mut Pe, *mut Ctx) -> Code;
        pe_progress: ["doca_pe_progress"] fn(*mut Pe) -> u8;
        ctx_state: ["doca_ctx_get_state"] fn(*const Ctx, *mut CtxState) -> Code;
        ctx_set_user_data: ["doca_ctx_set_user_data"] fn(*mut Ctx, Data) -> Code;
        task_submit: ["doca_task_submit"] fn(*mut Task) -> Code;
        task_status: ["doca_task_get_status"] fn(*const Task) -> Code;
        task_free: ["doca_task_free"] fn(*mut Task);
    }
}

table! {
    /// Functions for one doorbell for many tasks, from 2.10 on.
    Flush {
        task_submit_ex: ["doca_task_submit_ex"] fn(*mut Task, u32) -> Code;
        ctx_flush: ["doca_ctx_flush_tasks"] fn(*mut Ctx);
    }
}

table! {
    /// Functions by which a progress engine says that it has something to do.
    Notification {
        handle: ["doca_pe_get_notification_handle"] fn(*const Pe, *mut c_int) -> Code;
        request: ["doca_pe_request_notification"] fn(*mut Pe) -> Code;
        clear: ["doca_pe_clear_notification"] fn(*mut Pe, c_int) -> Code;
    }
}

table! {
    /// Functions for memory that queues of several threads use, from 2.10 on.
    ThreadSafety {
        mmap_enable: ["doca_mmap_enable_thread_safety"] fn(*mut Mmap) -> Code;
    }
}

table! {
    /// Functions of every engine's library.
    Create {
        create: ["doca_X_create"] fn(*mut Dev, *mut *mut Engine) -> Code;
    }
}

table! {
    /// Functions of every engine's library; SHA's has them from 2.10 on.
    TasksMax {
        query: ["doca_X_cap_get_max_num_tasks", "doca_X_get_max_num_tasks"] fn(*mut Engine, *mut u32) -> Code;
    }
}

table! {
    /// Functions of every task.
    AnyTask {
        as_task: ["doca_X_task_Y_as_task"] fn(*mut EngineTask) -> *mut Task;
    }
}

table! {
    /// Functions of every task but SHA's.
    Configured {
        is_supported: ["doca_X_cap_task_Y_is_supported"] fn(*const DevInfo) -> Code;
        max_buf_size: ["doca_X_cap_task_Y_get_max_buf_size"] fn(*const DevInfo, *mut u64) -> Code;
        set_conf: ["doca_X_task_Y_set_conf"] fn(*mut Engine, Callback, Callback, u32) -> Code;
        set_src: ["doca_X_task_Y_set_src"] fn(*mut EngineTask, *const Buf);
        set_dst: ["doca_X_task_Y_set_dst"] fn(*mut EngineTask, *mut Buf);
    }
}

table! {
    /// Functions of tasks that need a source and a destination.
    Plain {
        alloc_init: ["doca_X_task_Y_alloc_init"] fn(*mut Engine, *const Buf, *mut Buf, Data, *mut *mut EngineTask) -> Code;
    }
}

table! {
    /// Functions that give the checks of the plain bytes of a DEFLATE task that has ended.
    Checks {
        crc: ["doca_X_task_Y_get_crc_cs"] fn(*const EngineTask) -> u32;
        adler: ["doca_X_task_Y_get_adler_cs"] fn(*const EngineTask) -> u32;
    }
}

table! {
    /// Functions of AES-GCM's tasks.
    Authenticated {
        alloc_init: ["doca_X_task_Y_alloc_init"]
            fn(*mut Engine, *const Buf, *mut Buf, *mut Key, *const u8, u32, u32, u32, Data, *mut *mut EngineTask) -> Code;
        set_iv: ["doca_X_task_Y_set_iv"] fn(*mut EngineTask, *const u8, u32);
        max_iv_len: ["doca_X_cap_task_Y_get_max_iv_len", "doca_X_cap_task_Y_get_max_iv_length"]
            fn(*const DevInfo, *mut u32) -> Code;
        is_tag_128_supported: ["doca_X_cap_task_Y_is_tag_128_supported"] fn(*const DevInfo) -> Code;
        is_key_type_supported: ["doca_X_cap_task_Y_is_key_type_supported"] fn(*const DevInfo, KeyType) -> Code;
        key_create: ["doca_aes_gcm_key_create"] fn(*mut Engine, *const c_void, KeyType, *mut *mut Key) -> Code;
        key_destroy: ["doca_aes_gcm_key_destroy"] fn(*mut Key) -> Code;
    }
}

table! {
    /// Functions of SHA's tasks.
    Hash {
        is_supported: ["doca_X_cap_task_Y_get_supported"] fn(*const DevInfo, Algorithm) -> Code;
        max_buf_size: ["doca_X_cap_get_max_src_buf_size", "doca_X_cap_get_max_src_buffer_size"]
            fn(*const DevInfo, *mut u64) -> Code;
        min_dst_size: ["doca_X_cap_get_min_dst_buf_size", "doca_X_cap_get_min_dst_buffer_size"]
            fn(*const DevInfo, Algorithm, *mut u32) -> Code;
        set_conf: ["doca_X_task_Y_set_conf"] fn(*mut Engine, Callback, Callback, u8) -> Code;
        alloc_init: ["doca_X_task_Y_alloc_init"]
            fn(*mut Engine, Algorithm, *const Buf, *mut Buf, Data, *mut *mut EngineTask) -> Code;
        set_src: ["doca_X_task_Y_set_src"] fn(*mut EngineTask, *const Buf) -> Code;
        set_dst: ["doca_X_task_Y_set_dst"] fn(*mut EngineTask, *mut Buf) -> Code;
    }
}

table! {
    /// Functions of erasure coding's tasks, which take all blocks of an item, one behind another, and a matrix.
    Coding {
        is_supported: ["doca_X_cap_task_Y_is_supported"] fn(*const DevInfo) -> Code;
        max_block_size: ["doca_X_cap_get_max_block_size"] fn(*const DevInfo, *mut u64) -> Code;
        set_conf: ["doca_X_task_Y_set_conf"] fn(*mut Engine, Callback, Callback, u32) -> Code;
        alloc_init: ["doca_X_task_Y_allocate_init"]
            fn(*mut Engine, *const Matrix, *const Buf, *mut Buf, Data, *mut *mut EngineTask) -> Code;
        set_src: ["doca_X_task_Y_set_original_data_blocks", "doca_X_task_Y_set_available_blocks"]
            fn(*mut EngineTask, *const Buf);
        set_dst: ["doca_X_task_Y_set_rdnc_blocks", "doca_X_task_Y_set_recovered_data_blocks"] fn(*mut EngineTask, *mut Buf);
        matrix_create: ["doca_X_matrix_create"] fn(*mut Engine, MatrixType, usize, usize, *mut *mut Matrix) -> Code;
        matrix_create_recover: ["doca_X_matrix_create_recover"]
            fn(*mut Engine, *const Matrix, *mut u32, usize, *mut *mut Matrix) -> Code;
        matrix_destroy: ["doca_X_matrix_destroy"] fn(*mut Matrix) -> Code;
    }
}
