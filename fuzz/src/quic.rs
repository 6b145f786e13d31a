//! Packets and frames of QUIC, made of what a fuzzer has made: behind their encryption it could change nothing. The encryption is the traffic generator's, of which
//! the reader shares no code.

use dpb_net::recognition::quic::Version;
use dpb_net::traffic::application::{InitialKeys, QuicVersion};

/// An Initial packet of a client.
pub struct Initial<'a> {
    /// The version: of others than 2 the header is that of version 1.
    pub version: Version,
    /// The number that the keys follow from, up to 20 bytes.
    pub destination: &'a [u8],
    /// The packet's number.
    pub number: u32,
    /// The bytes that it is sent in, 1 to 4.
    pub number_bytes: usize,
}

impl Initial<'_> {
    /// The header, not protected yet, in front of this many bytes of frames.
    fn header(&self, frames_bytes: usize) -> Vec<u8> {
        let (kind, version) = match self.version {
            Version::Two => (1, 0x6b33_43cf_u32),
            _ => (0, 1),
        };
        let len = 0x4000 | (self.number_bytes + frames_bytes + 16) as u16;
        [
            &[0xc0 | kind << 4 | (self.number_bytes - 1) as u8][..],
            &version.to_be_bytes(),
            &[self.destination.len() as u8],
            self.destination,
            // Neither a number of the client's nor a token.
            &[0, 0],
            &len.to_be_bytes(),
            &self.number.to_be_bytes()[4 - self.number_bytes..],
        ]
        .concat()
    }

    /// The packet around `frames`, at least 3 bytes, as it goes over the wire.
    pub fn around(&self, frames: &[u8]) -> Vec<u8> {
        let version = match self.version {
            Version::Two => QuicVersion::V2,
            _ => QuicVersion::V1,
        };
        let keys = InitialKeys::client(version, self.destination);
        let header = self.header(frames.len());
        let number = self.number & (u32::MAX >> (32 - 8 * self.number_bytes));
        keys.seal(&header, number, self.number_bytes, frames)
    }
}

/// A CRYPTO frame (RFC 9000, 19.6) of fewer than 16,384 bytes, from a place below that number.
pub fn crypto_frame(at: usize, bytes: &[u8]) -> Vec<u8> {
    let number = |number: usize| (0x4000 | number as u16).to_be_bytes();
    [&[6][..], &number(at), &number(bytes.len()), bytes].concat()
}
