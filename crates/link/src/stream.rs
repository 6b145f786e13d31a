//! The bytes of a connection: plain, or encrypted.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::net::sockopt;

#[cfg(feature = "tls")]
use crate::tls::TlsStream;

/// The interval at which a blocking read or write looks around.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
/// The time for which a peer's machine may say nothing where it must.
pub(crate) const SILENT_MAX: Duration = Duration::from_secs(60);

/// A connection's byte stream, which a service may take over for a loop of its own.
///
/// **Polling.** The descriptor ([`AsFd`]) is the socket's. Whoever waits for it to become readable asks
/// [`Stream::has_plaintext`] first: bytes that were decrypted already make no socket readable. A socket that is readable may
/// still give [`io::ErrorKind::WouldBlock`], while a record is not there in full. Whoever writes without blocking waits
/// for the socket to become writable while [`Stream::has_unsent`], and then calls [`Write::flush`]: of an encrypted stream a write may
/// have taken bytes that the socket has not taken yet.
#[derive(Debug)]
pub enum Stream {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Bytes through TLS.
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream>),
}

impl Stream {
    /// The socket beneath: its options and addresses. What is written to it directly breaks an encrypted stream.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.tcp(),
        }
    }

    /// Returns true if the bytes are encrypted.
    pub fn is_encrypted(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Returns true if a read may give something, or the end, without the socket; it may still be [`io::ErrorKind::WouldBlock`].
    pub fn has_plaintext(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.has_plaintext(),
        }
    }

    /// Returns true if bytes were taken that the socket has not taken yet.
    pub fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.has_unsent(),
        }
    }

    /// Sets whether reads and writes return at once; blocking ones of a [`crate::Link`] return after 200 ms.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.tcp().set_nonblocking(is_nonblocking)
    }

    /// Ends one direction or both; an encrypted stream says so to its peer first.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Self::Tls(tls) = self
            && how != Shutdown::Read
        {
            tls.close_notify();
        }
        self.tcp().shutdown(how)
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write_vectored(slices),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.flush(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp().as_fd()
    }
}

/// Sets the options of a connection's socket: no delay, reads and writes that look around, and a bound for a peer whose machine is gone.
pub(crate) fn set_options(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    tcp.set_write_timeout(Some(LOOK))?;
    tcp.set_read_timeout(Some(LOOK))?;
    // A peer whose machine is gone says nothing: ask after 20 s, give up after a minute, also what it has not acknowledged.
    sockopt::set_socket_keepalive(tcp, true)?;
    sockopt::set_tcp_keepidle(tcp, Duration::from_secs(20))?;
    sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(tcp, 4)?;
    sockopt::set_tcp_user_timeout(tcp, SILENT_MAX.as_millis() as u32)?;
    Ok(())
}
