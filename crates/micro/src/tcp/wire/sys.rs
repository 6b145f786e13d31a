//! `TCP_INFO`, which no safe interface of ours has.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

const IPPROTO_TCP: c_int = 6;
const TCP_INFO: c_int = 11;
/// `struct tcp_info` (linux/tcp.h) up to `tcpi_total_retrans`: eight bytes, then 24 numbers of four.
const INFO_WORDS: usize = 2 + 24;

unsafe extern "C" {
    fn getsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut u32,
    ) -> c_int;
}

/// Segments that this end of the connection has sent again since it was opened; `None` where the kernel does not say.
pub(in crate::tcp) fn retransmissions(stream: &TcpStream) -> Option<u64> {
    let mut info = [0u32; INFO_WORDS];
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which has so many, and the length to `len`.
    let failed = unsafe {
        getsockopt(
            stream.as_raw_fd(),
            IPPROTO_TCP,
            TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    let is_whole = failed == 0 && len as usize == size_of_val(&info);
    is_whole.then(|| u64::from(info[INFO_WORDS - 1]))
}
