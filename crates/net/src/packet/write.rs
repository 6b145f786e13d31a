//! Headers, to be put into memory: each before what follows it, lengths and checksums by what is there.
//!
//! A header is put at the start of a slice that ends where its layer does, so the slice says the length. Payloads come first, as checksums are of
//! them; then headers, in any order:
//!
//! ```
//! use dpb_net::packet::write::{Ethernet, Ipv4, Udp};
//! use dpb_net::packet::{Frame, ether_type, protocol};
//!
//! let mut frame = [0; 14 + 20 + 8 + 5];
//! frame[42..].copy_from_slice(b"hello");
//! let ip = Ipv4::new([0xc000_0201, 0xc633_6402], protocol::UDP);
//! let ethernet = Ethernet { destination: [2; 6], source: [4; 6], ether_type: ether_type::IPV4 };
//!
//! let packet = ethernet.put(&mut frame)?;
//! let datagram = ip.put(packet)?;
//! let payload = Udp::new([5000, 53]).put(datagram, ip.ends())?;
//! assert_eq!(payload, b"hello");
//!
//! let read = Frame::read(&frame)?;
//! assert!(read.has_right_checksums() && read.payload() == b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod envelope;
mod icmp;
mod ip;
mod link;
mod transport;
mod tunnel;

pub use envelope::Envelope;
pub use icmp::Echo;
pub use ip::{Ipv4, Ipv6};
pub use link::{Ethernet, VlanTag};
pub use transport::{Tcp, Udp};
pub use tunnel::{Geneve, Gre, Vxlan};

/// Why a header was not put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// The slice is shorter than the header.
    #[error("a header of {header_bytes} bytes into {len}")]
    TooShort {
        /// Bytes of the header.
        header_bytes: usize,
        /// Bytes that there are.
        len: usize,
    },
    /// The slice is longer than the header's field can say.
    #[error("{len} bytes, of which the header can say at most {len_max}")]
    TooLong {
        /// Bytes that there are.
        len: usize,
        /// Bytes that there may be.
        len_max: usize,
    },
    /// Options are no multiple of four bytes, or more than 40.
    #[error("{0} bytes of options: a multiple of 4, at most 40")]
    Options(usize),
}

/// The header of `header_bytes` bytes, zeroed, and what follows it.
fn split(bytes: &mut [u8], header_bytes: usize) -> Result<(&mut [u8], &mut [u8]), Unwritable> {
    let len = bytes.len();
    let too_short = Unwritable::TooShort { header_bytes, len };
    let (header, rest) = bytes.split_at_mut_checked(header_bytes).ok_or(too_short)?;
    header.fill(0);
    Ok((header, rest))
}

/// `len` as a field of sixteen bits.
fn said(len: usize, len_max: usize) -> Result<u16, Unwritable> {
    let said = u16::try_from(len).ok().filter(|_| len <= len_max);
    said.ok_or(Unwritable::TooLong { len, len_max })
}

/// The number of bytes of options, if there may be as many.
fn options_bytes(options: &[u8]) -> Result<usize, Unwritable> {
    let len = options.len();
    let is_right = len <= 40 && len.is_multiple_of(4);
    is_right.then_some(len).ok_or(Unwritable::Options(len))
}
