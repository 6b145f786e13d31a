//! Addresses and ports, changed where they lie; every checksum follows by what has changed.

use dpb_core::packet::{TCP, UDP, Version, put_u16, u16_at};

use super::facts::{Facts, Marks, Verdict};
use super::layers::{Layers, is_error, is_query};
use super::{Change, Headers, Places, Refusal, Start, protocol};

/// A side of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

/// Why a packet cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unchangeable {
    /// It was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It is no IP packet.
    #[error("no IP packet")]
    NotIp,
    /// An authentication header covers its addresses.
    #[error("an authentication header covers the addresses")]
    Authenticated,
    /// Its destination is not the last one, which its checksum is of.
    #[error("a routing header with segments left")]
    Routed,
    /// It is the first fragment of a datagram, and ends before the checksum.
    #[error("a first fragment without the checksum")]
    ChecksumCut,
    /// It is of the other version of IP.
    #[error("another version of IP")]
    Version,
    /// It has no ports that can be changed: a fragment, or another protocol than TCP, UDP, and questions and answers of ICMP.
    #[error("no ports")]
    NoPorts,
    /// It is no error of ICMP that quotes a packet.
    #[error("no packet is quoted")]
    NothingQuoted,
}

/// A packet whose addresses and ports are changed in place.
///
/// Checksums follow by what has changed (RFC 1624), so one that was wrong stays wrong. UDP's zero, which says that there is none, stays zero.
/// Of protocols that are not read (see [the module](super)) only the IP header follows.
///
/// ```
/// use dpb_net::packet::{Frame, Headers, Rewriter, Side};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use dpb_net::packet::{ether_type, protocol, write};
/// # let mut frame = vec![0; 64];
/// # write::Ethernet { destination: [2; 6], source: [4; 6], ether_type: ether_type::IPV4 }.put(&mut frame)?;
/// # let ip = write::Ipv4::new([0x0a00_0001, 0xc000_0201], protocol::UDP);
/// # let datagram = ip.put(&mut frame[14..])?;
/// # write::Udp::new([5000, 53]).put(datagram, ip.ends())?;
/// let mut headers = Headers::new();
/// headers.read(&[&frame[..]]);
/// let mut packet = Rewriter::of_row(&headers, 0, &mut frame)?;
/// packet.set_address_v4(Side::Source, 0xc633_6401)?;
/// packet.set_port(Side::Source, 1024)?;
///
/// let frame = Frame::read(&frame)?;
/// assert!(frame.has_right_checksums());
/// assert_eq!(frame.ports(), Some([1024, 53]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Rewriter<'a> {
    bytes: &'a mut [u8],
    subject: Subject,
}

/// The places of what changes.
#[derive(Clone, Copy, Debug)]
struct Subject {
    version: Version,
    l3: usize,
    l4: usize,
    end: usize,
    protocol: u8,
    /// True if the transport's header is there and whole.
    has_transport: bool,
    checksum: Option<Checksum>,
}

/// A transport's checksum.
#[derive(Clone, Copy, Debug)]
struct Checksum {
    at: usize,
    /// True if it is of the addresses too.
    has_pseudo: bool,
}

impl<'a> Rewriter<'a> {
    /// Of an Ethernet frame, which is read.
    ///
    /// # Errors
    /// [`Unchangeable`]; the frame is as it was.
    pub fn of_frame(bytes: &'a mut [u8]) -> Result<Self, Unchangeable> {
        Self::of_frame_from(bytes, Start::Ethernet)
    }

    /// The same of bytes that start with another header.
    ///
    /// # Errors
    /// [`Unchangeable`]; the frame is as it was.
    pub fn of_frame_from(bytes: &'a mut [u8], start: Start) -> Result<Self, Unchangeable> {
        let layers = Layers::read(bytes, 0, start)?;
        let subject = Subject::of(&layers)?;
        Ok(Self { bytes, subject })
    }

    /// Of the frame that is this row of `headers`, which is not read again, unless it is one of the few that need it.
    ///
    /// # Errors
    /// [`Unchangeable`]; the frame is as it was.
    ///
    /// # Panics
    /// If there is no such row, or if the frame has another length than the one that was read.
    #[inline]
    pub fn of_row(
        headers: &Headers,
        row: usize,
        bytes: &'a mut [u8],
    ) -> Result<Self, Unchangeable> {
        let (facts, places) = (&headers.facts()[row], headers.places()[row]);
        assert_eq!(bytes.len(), facts.bytes as usize, "another frame");
        match Subject::of_row(facts, places) {
            Some(subject) => Ok(Self { bytes, subject }),
            None => Self::of_frame(bytes),
        }
    }

    /// Changes an address of IPv4.
    ///
    /// # Errors
    /// [`Unchangeable::Version`].
    #[inline]
    pub fn set_address_v4(&mut self, side: Side, address: u32) -> Result<(), Unchangeable> {
        self.subject.is(Version::V4)?;
        (self.subject).set_address(self.bytes, side, &address.to_be_bytes());
        Ok(())
    }

    /// Changes an address of IPv6.
    ///
    /// # Errors
    /// [`Unchangeable::Version`].
    pub fn set_address_v6(&mut self, side: Side, address: u128) -> Result<(), Unchangeable> {
        self.subject.is(Version::V6)?;
        (self.subject).set_address(self.bytes, side, &address.to_be_bytes());
        Ok(())
    }

    /// Changes a port of TCP or UDP; of a question or answer of ICMP its identifier, whatever the side.
    ///
    /// # Errors
    /// [`Unchangeable::NoPorts`].
    #[inline]
    pub fn set_port(&mut self, side: Side, port: u16) -> Result<(), Unchangeable> {
        self.subject.set_port(self.bytes, side, port).map(|_| ())
    }

    /// Takes one hop from those that the packet may still go. False, and nothing has changed, if it may not go on: it had one or none (RFC 1812, 5.3.1; RFC 8200, 3).
    #[inline]
    pub fn take_hop(&mut self) -> bool {
        let Subject { version, l3, .. } = self.subject;
        let at = match version {
            Version::V4 => l3 + 8,
            Version::V6 => l3 + 7,
        };
        if self.bytes[at] <= 1 {
            return false;
        }
        match version {
            Version::V4 => {
                let word = u16_at(self.bytes, at);
                let change = put(self.bytes, at, word - 0x100);
                follow(self.bytes, l3 + 10, change);
            }
            Version::V6 => self.bytes[at] -= 1,
        }
        true
    }

    /// Changes an address of the IPv4 packet that this error of ICMP quotes; the error's own checksum follows too.
    ///
    /// # Errors
    /// [`Unchangeable::NothingQuoted`], [`Unchangeable::Version`].
    pub fn set_quoted_address_v4(&mut self, side: Side, address: u32) -> Result<(), Unchangeable> {
        let quoted = self.quoted()?;
        quoted.is(Version::V4)?;
        let change = quoted.set_address(self.bytes, side, &address.to_be_bytes());
        self.follow_quoted(change);
        Ok(())
    }

    /// Changes a port of the packet that this error of ICMP quotes, as [`Rewriter::set_port`] does; the error's own checksum follows too. The checksum
    /// of the packet that is quoted follows if it is part of what is.
    ///
    /// # Errors
    /// [`Unchangeable::NothingQuoted`], [`Unchangeable::NoPorts`].
    pub fn set_quoted_port(&mut self, side: Side, port: u16) -> Result<(), Unchangeable> {
        let quoted = self.quoted()?;
        let change = quoted.set_port(self.bytes, side, port)?;
        self.follow_quoted(change);
        Ok(())
    }

    fn quoted(&self) -> Result<Subject, Unchangeable> {
        let Subject { l4, end, .. } = self.subject;
        let is_icmp = matches!(self.subject.protocol, protocol::ICMP | protocol::ICMPV6);
        let is_quoting = is_icmp
            && self.subject.has_transport
            && is_error(self.subject.protocol, self.bytes[l4]);
        let layers = is_quoting.then(|| Layers::read_quoted(&self.bytes[..end], l4 + 8));
        let layers = layers.flatten().ok_or(Unchangeable::NothingQuoted)?;
        Ok(Subject::of_quoted(&layers))
    }

    fn follow_quoted(&mut self, change: Change) {
        let checksum = self.subject.checksum.expect("ICMP has one");
        follow(self.bytes, checksum.at, change);
    }
}

impl Subject {
    /// Of a packet that was read as a whole.
    fn of(layers: &Layers) -> Result<Self, Unchangeable> {
        let Some(version) = layers.version else {
            return Err(Unchangeable::NotIp);
        };
        if layers.is_authenticated {
            return Err(Unchangeable::Authenticated);
        }
        if layers.is_routed_on {
            return Err(Unchangeable::Routed);
        }
        let mut subject = Self::placed(layers, version);
        let starts_here = layers.fragment.is_none_or(|fragment| fragment.start == 0);
        if starts_here {
            subject.checksum = checksum(layers.protocol, version, subject.l4);
            let is_cut = |checksum: Checksum| checksum.at + 2 > layers.end;
            if subject.checksum.is_some_and(is_cut) {
                return Err(Unchangeable::ChecksumCut);
            }
        }
        Ok(subject)
    }

    /// Of a packet of which the start is quoted.
    fn of_quoted(layers: &Layers) -> Self {
        let version = layers.version.expect("an IP packet");
        let mut subject = Self::placed(layers, version);
        if layers.has_transport && !layers.is_routed_on {
            let checksum = checksum(layers.protocol, version, subject.l4);
            subject.checksum = checksum.filter(|checksum| checksum.at + 2 <= layers.end);
        }
        subject
    }

    fn placed(layers: &Layers, version: Version) -> Self {
        Self {
            version,
            l3: layers.places.l3.into(),
            l4: layers.places.l4.into(),
            end: layers.end,
            protocol: layers.protocol,
            has_transport: layers.has_transport,
            checksum: None,
        }
    }

    /// Of a row, if what is known of it is enough.
    #[inline(always)]
    fn of_row(facts: &Facts, places: Places) -> Option<Self> {
        let special = Marks::FRAGMENT
            .with(Marks::AUTHENTICATED)
            .with(Marks::ROUTED);
        let version = match facts.verdict {
            Verdict::Ipv4 => Version::V4,
            Verdict::Ipv6 => Version::V6,
            _ => return None,
        };
        let has_transport = facts.marks.has(Marks::TRANSPORT);
        if facts.marks.has(special) || !has_transport {
            return None;
        }
        let l4 = usize::from(places.l4);
        Some(Self {
            version,
            l3: places.l3.into(),
            l4,
            // Of UDP, bytes may follow that no checksum is of.
            end: usize::from(places.payload) + usize::from(places.payload_bytes),
            protocol: facts.protocol,
            has_transport,
            checksum: checksum(facts.protocol, version, l4),
        })
    }

    #[inline(always)]
    fn is(&self, version: Version) -> Result<(), Unchangeable> {
        (self.version == version)
            .then_some(())
            .ok_or(Unchangeable::Version)
    }

    /// Says what has changed in all of the packet.
    #[inline(always)]
    fn set_address<const N: usize>(
        &self,
        bytes: &mut [u8],
        side: Side,
        address: &[u8; N],
    ) -> Change {
        let first = match self.version {
            Version::V4 => 12,
            Version::V6 => 8,
        };
        let at = self.l3 + first + N * side as usize;
        let mut change = Change::default();
        for (i, word) in address.as_chunks::<2>().0.iter().enumerate() {
            change = change + put(bytes, at + 2 * i, u16::from_be_bytes(*word));
        }
        let mut all = change;
        if self.version == Version::V4 {
            all = all + follow(bytes, self.l3 + 10, change);
        }
        match self.checksum {
            Some(checksum) if checksum.has_pseudo => all + self.follow(bytes, checksum, change),
            _ => all,
        }
    }

    /// Says what has changed in all of the packet.
    #[inline(always)]
    fn set_port(&self, bytes: &mut [u8], side: Side, port: u16) -> Result<Change, Unchangeable> {
        let is_icmp = matches!(self.protocol, protocol::ICMP | protocol::ICMPV6);
        let at = match self.protocol {
            _ if !self.has_transport => return Err(Unchangeable::NoPorts),
            // SCTP's checksum is another one, of all the payload.
            TCP | UDP => self.l4 + 2 * side as usize,
            _ if is_icmp && is_query(self.protocol, bytes[self.l4]) => self.l4 + 4,
            _ => return Err(Unchangeable::NoPorts),
        };
        let change = put(bytes, at, port);
        Ok(match self.checksum {
            Some(checksum) => change + self.follow(bytes, checksum, change),
            None => change,
        })
    }

    /// Has the transport's checksum follow `change`; says what has changed by that.
    #[inline(always)]
    fn follow(&self, bytes: &mut [u8], checksum: Checksum, change: Change) -> Change {
        if self.protocol != UDP {
            return follow(bytes, checksum.at, change);
        }
        match u16_at(bytes, checksum.at) {
            // There is none (RFC 768).
            0 => Change::default(),
            old => match change.applied(old) {
                0 => put(bytes, checksum.at, 0xffff),
                new => put(bytes, checksum.at, new),
            },
        }
    }
}

/// The checksum of a transport that starts at `l4`.
#[inline(always)]
fn checksum(protocol: u8, version: Version, l4: usize) -> Option<Checksum> {
    let (at, has_pseudo) = match (protocol, version) {
        (TCP, _) => (16, true),
        (UDP, _) => (6, true),
        (protocol::ICMP, Version::V4) => (2, false),
        (protocol::ICMPV6, Version::V6) => (2, true),
        _ => return None,
    };
    Some(Checksum {
        at: l4 + at,
        has_pseudo,
    })
}

/// Writes a word; says what has changed.
#[inline(always)]
fn put(bytes: &mut [u8], at: usize, new: u16) -> Change {
    let change = Change::of(u16_at(bytes, at), new);
    put_u16(bytes, at, new);
    change
}

/// Has a checksum follow `change`; says what has changed by that.
#[inline(always)]
fn follow(bytes: &mut [u8], at: usize, change: Change) -> Change {
    let new = change.applied(u16_at(bytes, at));
    put(bytes, at, new)
}

const _: () = assert!(Side::Source as usize == 0 && Side::Destination as usize == 1);
