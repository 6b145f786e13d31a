//! The machine of a peer, and whether it still answers.
#![allow(unsafe_code)]

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The segments, or questions for room, that a machine leaves without an answer before it may count as gone: one is often on its way.
const UNANSWERED: u8 = 2;

/// The words of the kernel about a connection (tcp(7), `TCP_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    /// Times that the oldest segment without an answer was sent again.
    retransmits: u8,
    /// Questions for room (RFC 9293, section 3.8.6.1, zero-window probes) since the last answer.
    probes: u8,
    /// The time since the last answer.
    last: Duration,
}

impl Answers {
    /// What the kernel says of a connection; `None` if it says nothing.
    pub(crate) fn of(tcp: &TcpStream) -> Option<Self> {
        // SAFETY: all fields are numbers, for which zeroes are valid.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the kernel writes up to `len` bytes to `info`, which is as long, and the descriptor is open while `tcp` is borrowed.
        let failed = unsafe {
            libc::getsockopt(
                tcp.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut len,
            )
        };
        (failed == 0).then(|| Self {
            retransmits: info.tcpi_retransmits,
            probes: info.tcpi_probes,
            last: Duration::from_millis(u64::from(info.tcpi_last_ack_recv)),
        })
    }

    /// True if the machine has left what it was sent without an answer for longer than `patience`. One that answers that it has no room is there.
    pub(crate) fn have_ended(self, patience: Duration) -> bool {
        self.retransmits.max(self.probes) >= UNANSWERED && self.last > patience
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_machine_that_answers_is_there_and_one_that_does_not_is_gone() {
        let answers = |retransmits, probes, seconds| Answers {
            retransmits,
            probes,
            last: Duration::from_secs(seconds),
        };
        // It has no room for an hour: the questions come ever more seldom, and each is answered.
        assert!(!answers(0, 0, 119).have_ended(MINUTE));
        assert!(!answers(0, 1, 121).have_ended(MINUTE));
        // It lost a segment a moment ago.
        assert!(!answers(3, 0, 2).have_ended(MINUTE));
        assert!(answers(0, 2, 61).have_ended(MINUTE));
        assert!(answers(7, 0, 61).have_ended(MINUTE));
    }

    #[test]
    fn the_kernel_says_that_a_reader_which_does_not_read_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 1 << 16]).is_ok() {}
        let answers = Answers::of(&near).unwrap();
        assert!(!answers.have_ended(Duration::ZERO), "{answers:?}");
    }
}
