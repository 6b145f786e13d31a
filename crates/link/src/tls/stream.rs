//! A TCP connection through TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

use rustls::Connection;

/// Reads and writes plaintext. Each call moves ciphertext as far as the socket allows; see [`crate::Stream`] for polling.
#[derive(Debug)]
pub struct TlsStream {
    tcp: TcpStream,
    connection: Connection,
    /// Decrypted bytes that nobody has read.
    plaintext_bytes: usize,
    /// The peer sends nothing more.
    has_ended: bool,
}

impl TlsStream {
    pub(super) fn new(tcp: TcpStream, connection: Connection) -> Self {
        Self {
            tcp,
            connection,
            plaintext_bytes: 0,
            has_ended: false,
        }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    pub(crate) fn has_plaintext(&self) -> bool {
        self.plaintext_bytes > 0 || self.has_ended
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.connection.wants_write()
    }

    /// Tells the peer that nothing more comes, as far as the socket takes it now.
    pub(crate) fn close_notify(&mut self) {
        self.connection.send_close_notify();
        // A peer that has gone, or reads nothing, is told by the end of the connection.
        let _ = self.push();
    }

    /// Takes ciphertext from the socket, once.
    pub(super) fn pull(&mut self) -> io::Result<()> {
        if self.connection.read_tls(&mut self.tcp)? == 0 {
            self.has_ended = true;
        }
        match self.connection.process_new_packets() {
            Ok(state) => {
                self.plaintext_bytes = state.plaintext_bytes_to_read();
                self.has_ended |= state.peer_has_closed();
            }
            Err(error) => {
                // The alert that says why; the peer may be gone.
                let _ = self.push();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        // An answer that the protocol itself owes. What does not go now goes with the next write.
        match self.push() {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
            _ => Ok(()),
        }
    }

    /// Gives the socket all ciphertext that there is.
    pub(super) fn push(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.tcp) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Read for TlsStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(bytes) {
                Ok(count) => {
                    self.plaintext_bytes -= count.min(self.plaintext_bytes);
                    return Ok(count);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.pull()?,
                Err(e) => return Err(e),
            }
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        // What was taken before goes first; while it does not, nothing more is taken.
        self.push()?;
        let taken = self.connection.writer().write_vectored(slices)?;
        match self.push() {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        if self.tcp.set_nonblocking(true).is_ok() {
            self.close_notify();
        }
    }
}
