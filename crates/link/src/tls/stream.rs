//! A TCP connection through TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::Range;

use rustls::Connection;

/// Reads and writes plaintext. Each call moves ciphertext as far as the socket allows; see [`crate::Stream`] for polling.
#[derive(Debug)]
pub struct TlsStream {
    tcp: TcpStream,
    connection: Connection,
    /// Bytes from the socket that `connection` has not taken: those of `arrived`.
    ciphertext: Box<[u8]>,
    arrived: Range<usize>,
    /// Decrypted bytes that nobody has read.
    plaintext_bytes: usize,
    /// The peer sends nothing more.
    has_ended: bool,
}

/// Bytes that one read takes from the socket at most: four records, the longest of which have 16 KiB and 22 bytes. Rustls alone reads 4 KiB at
/// a time.
const READ_BYTES: usize = 4 * ((16 << 10) + 22);
/// Decrypted bytes beyond which `connection` takes no more until some are read.
const PLAINTEXT_BYTES_MAX: usize = 16 << 10;

impl TlsStream {
    pub(super) fn new(tcp: TcpStream, connection: Connection) -> Self {
        Self {
            tcp,
            connection,
            ciphertext: vec![0; READ_BYTES].into(),
            arrived: 0..0,
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

    /// Returns true if a read may give something without the socket: bytes, the end, or what is still to be decrypted.
    pub(crate) fn has_plaintext(&self) -> bool {
        self.plaintext_bytes > 0 || self.has_ended || !self.arrived.is_empty()
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

    /// Decrypts what has come; reads from the socket, once, if all of that is decrypted.
    pub(super) fn pull(&mut self) -> io::Result<()> {
        if self.arrived.is_empty() {
            let count = self.tcp.read(&mut self.ciphertext)?;
            self.arrived = 0..count;
            if count == 0 {
                // So that the connection knows whether its peer has said goodbye.
                self.connection.read_tls(&mut io::empty())?;
                self.has_ended = true;
            }
        }
        self.decrypt()?;
        // An answer that the protocol itself owes. What does not go now goes with the next write.
        match self.push() {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
            _ => Ok(()),
        }
    }

    /// Decrypts until everything is, or enough for now.
    fn decrypt(&mut self) -> io::Result<()> {
        loop {
            let mut rest = &self.ciphertext[self.arrived.clone()];
            if !rest.is_empty() && self.connection.read_tls(&mut rest)? == 0 {
                // Nothing counts behind the peer's goodbye.
                rest = &[];
            }
            self.arrived.start = self.arrived.end - rest.len();
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
            if self.arrived.is_empty() || self.plaintext_bytes >= PLAINTEXT_BYTES_MAX {
                return Ok(());
            }
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
