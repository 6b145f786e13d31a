//! What is missing where AF_XDP does not work, and what to do.

use std::io;

pub(super) fn why_no_socket(error: io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "AF_XDP needs CAP_NET_RAW: run as root, `setcap cap_net_raw+ep PROGRAM`, or in a network namespace of its own (`unshare -Urn`)"
        }
        Some(libc::EAFNOSUPPORT) => {
            "the kernel has no AF_XDP: it needs CONFIG_XDP_SOCKETS (Linux 5.4 or later)"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), why)
}

pub(super) fn why_no_memory(error: io::Error, bytes: usize) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOBUFS) => {
            let why = format!(
                "AF_XDP locks {bytes} bytes, more than the user may: fewer frames, `ulimit -l unlimited`, or CAP_IPC_LOCK"
            );
            io::Error::new(io::ErrorKind::OutOfMemory, why)
        }
        _ => error,
    }
}

pub(super) fn why_not_bound(error: io::Error, interface: &str, queue: u32) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::ENETDOWN) => format!("the interface is down: ip link set {interface} up"),
        Some(libc::EBUSY) => "the queue has a socket of AF_XDP already".to_owned(),
        Some(libc::EINVAL) => {
            format!("there is no such queue, or not with these options: ethtool -l {interface}")
        }
        Some(libc::EOPNOTSUPP) => {
            "the driver cannot do without copies: Copying::Any or Copying::Kernel".to_owned()
        }
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("queue {queue} of {interface}: {why}"))
}

pub(super) fn why_no_program(error: io::Error, interface: &str) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "it needs CAP_BPF and CAP_NET_ADMIN outside of all user namespaces: run as root, or `setcap cap_bpf,cap_net_admin,cap_net_raw+ep PROGRAM`. \
             Sending needs no program (Options::receives)"
                .to_owned()
        }
        Some(libc::EBUSY | libc::EEXIST) => {
            format!("the interface has another one: ip link set dev {interface} xdp off")
        }
        Some(libc::EINVAL) => "the kernel does not take it: Linux 5.9 or later does".to_owned(),
        Some(libc::ENOSYS) => "the kernel has no bpf(2): it needs CONFIG_BPF_SYSCALL".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(
        error.kind(),
        format!("the program by which {interface} hands packets to AF_XDP: {why}"),
    )
}
