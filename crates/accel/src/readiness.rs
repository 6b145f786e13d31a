//! Sleep until a device has something.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The time that a queue sleeps at once whose device wakes nobody.
const NAP: Duration = Duration::from_micros(50);

/// Sleeps until `file` is readable, at most for `timeout`; says whether it is. A signal may end the sleep early.
pub(crate) fn sleep(file: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut files = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
    matches!(poll(&mut files, Some(&timespec(timeout))), Ok(1..))
}

/// Sleeps for a short time, or for `timeout` if that is shorter: what a queue does whose device has no file.
pub(crate) fn nap(timeout: Duration) {
    // No file, so that time alone ends it, or a signal: early, which a nap may.
    _ = poll(&mut [], Some(&timespec(timeout.min(NAP))));
}

/// Whether `file` is readable now.
pub(crate) fn is_readable(file: BorrowedFd<'_>) -> bool {
    sleep(file, Duration::ZERO)
}

/// A time that does not fit is for ever.
fn timespec(timeout: Duration) -> Timespec {
    Timespec::try_from(timeout).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_file_wakes_who_sleeps_as_soon_as_there_is_something_to_read() {
        let (mut near, mut far) = UnixStream::pair().expect("sockets");
        assert!(!is_readable(near.as_fd()));
        assert!(!sleep(near.as_fd(), Duration::from_nanos(1)));
        let writer = std::thread::spawn(move || {
            far.write_all(b"!").expect("the other end is there");
            far
        });
        // For ever, if nothing came.
        assert!(sleep(near.as_fd(), Duration::MAX));
        let _far = writer.join().expect("no panic");
        near.read_exact(&mut [0]).expect("one byte");
        assert!(!is_readable(near.as_fd()));
    }
}
