//! pcapng, as draft-ietf-opsawg-pcapng has it: blocks, each of a kind and a length, which stands at its end once more. A section begins with a header, which
//! says its byte order, and has interfaces, to which its packets refer by their number.
//!
//! The crates that read it (`pcap-file`, `pcap-parser`) were read and left aside: one holds megabytes and decodes every option of every block, the other
//! leaves interfaces and times to its caller and takes a parser library along. Four kinds of blocks matter here, read straight into
//! the memory of a packet.

use std::io::{self, Read};

use super::format::{ByteOrder, Head, RECORD_BYTES_MAX, invalid, too_many};
use super::input::Input;

/// The kind of a block that begins a section, which reads the same from both ends.
pub(super) const SECTION: u32 = 0x0A0D_0D0A;
pub(super) const SECTION_BYTES: [u8; 4] = SECTION.to_be_bytes();
/// By which the byte order is known.
pub(super) const ORDER_MAGIC: u32 = 0x1A2B_3C4D;
/// An interface.
pub(super) const INTERFACE: u32 = 1;
/// A packet as old programs wrote it.
const OLD_PACKET: u32 = 2;
/// A packet without interface and time.
const SIMPLE_PACKET: u32 = 3;
/// A packet as programs write it.
pub(super) const PACKET: u32 = 6;
/// Longest block: what Wireshark takes.
const BLOCK_BYTES_MAX: u32 = 16 << 20;
/// Most interfaces of a section.
const INTERFACES_MAX: usize = 1 << 16;
/// Kind, length, and the length once more.
const FRAMING: u32 = 12;

/// Options of an interface: the resolution of its times, the bits of its check sequences, what is to be added to its times.
pub(super) const OPTION_RESOLUTION: u16 = 9;
const OPTION_CHECK_BITS: u16 = 13;
const OPTION_OFFSET: u16 = 14;

/// The section that is being read.
#[derive(Debug)]
pub(super) struct Sections {
    order: ByteOrder,
    interfaces: Vec<Interface>,
}

/// An interface at which packets came.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u16,
    /// Most bytes that were kept of a packet; 0 if all.
    snap: u32,
    /// The unit of its times: with the upper bit a power of 1/2 of a second, without a power of 1/10.
    resolution: u8,
    offset_s: i64,
    check_bytes: u32,
}

impl Sections {
    /// Reads the header of the first section, of which four bytes are read.
    pub(super) fn begin<R: Read>(input: &mut Input<R>) -> io::Result<Self> {
        let mut sections = Self {
            order: ByteOrder::Little,
            interfaces: Vec::new(),
        };
        sections.section(input, None)?;
        Ok(sections)
    }

    pub(super) fn order(&self) -> ByteOrder {
        self.order
    }

    /// The header of a section, behind its kind: its length if that is read, the magic number, the version, the section's length, which may be unknown.
    fn section<R: Read>(&mut self, input: &mut Input<R>, len: Option<[u8; 4]>) -> io::Result<()> {
        const WHAT: &str = "the header of a section";
        let len = match len {
            Some(len) => len,
            None => input.take::<4>(WHAT)?,
        };
        let magic = input.take::<4>(WHAT)?;
        let orders = [ByteOrder::Little, ByteOrder::Big];
        let order = orders
            .into_iter()
            .find(|order| order.u32(magic) == ORDER_MAGIC);
        self.order = order.ok_or_else(|| {
            invalid(format!(
                "a section of unknown byte order (before byte {})",
                input.at
            ))
        })?;
        let len = self.order.u32(len);
        let body = body_of(len, 16, input.at)?;
        let [a, b, c, d] = input.take::<4>(WHAT)?;
        let version = (self.order.u16([a, b]), self.order.u16([c, d]));
        // 1.2 is 1.0 to a reader, says the draft.
        if !matches!(version, (1, 0 | 2)) {
            let (major, minor) = version;
            return Err(invalid(format!(
                "pcapng of version {major}.{minor}, not 1.0"
            )));
        }
        // The section's length, and options: 8 bytes of the body are read.
        input.pass(body - 8, WHAT)?;
        self.interfaces.clear();
        self.trailer(input, len)
    }

    /// Reads the length at a block's end, which has to be the one at its start.
    pub(super) fn trailer<R: Read>(&self, input: &mut Input<R>, len: u32) -> io::Result<()> {
        let again = self.order.u32(input.take::<4>("a block")?);
        match again == len {
            true => Ok(()),
            false => Err(invalid(format!(
                "a block of {len} bytes that ends with {again} (before byte {})",
                input.at
            ))),
        }
    }

    /// What stands in front of the next packet; blocks of other kinds are passed over.
    pub(super) fn head<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<Option<Head>> {
        while let Some(start) = input.take_or_end::<8>("a block")? {
            let [a, b, c, d, len @ ..] = start;
            let kind = self.order.u32([a, b, c, d]);
            if kind == SECTION {
                self.section(input, Some(len))?;
                continue;
            }
            let len = self.order.u32(len);
            match kind {
                INTERFACE => self.interface(input, len)?,
                PACKET | OLD_PACKET => return self.packet(input, kind, len).map(Some),
                SIMPLE_PACKET => return self.simple_packet(input, len).map(Some),
                _ => {
                    input.pass(body_of(len, 0, input.at)?, "a block")?;
                    self.trailer(input, len)?;
                }
            }
        }
        Ok(None)
    }

    /// An interface: the kind of its frames, the snap length, options.
    fn interface<R: Read>(&mut self, input: &mut Input<R>, len: u32) -> io::Result<()> {
        const WHAT: &str = "an interface";
        let mut left = body_of(len, 8, input.at)? - 8;
        let fixed = input.take::<8>(WHAT)?;
        let [_, snap] = self.order.words(&fixed);
        let mut interface = Interface {
            link: self.order.u16([fixed[0], fixed[1]]),
            snap,
            resolution: 6,
            offset_s: 0,
            check_bytes: 0,
        };
        while left >= 4 {
            let [a, b, c, d] = input.take::<4>(WHAT)?;
            let (code, bytes) = (self.order.u16([a, b]), self.order.u16([c, d]));
            left -= 4;
            let padded = u32::from(bytes).next_multiple_of(4);
            if code == 0 {
                break;
            }
            left = left.checked_sub(padded).ok_or_else(|| {
                invalid(format!(
                    "an option that is longer than its block (before byte {})",
                    input.at
                ))
            })?;
            match (code, bytes) {
                (OPTION_RESOLUTION, 1) => interface.resolution = input.take::<4>(WHAT)?[0],
                // In bits, says the draft; some programs write bytes.
                (OPTION_CHECK_BITS, 1) => {
                    interface.check_bytes = match input.take::<4>(WHAT)?[0] {
                        bits if bits.is_multiple_of(8) => u32::from(bits / 8),
                        bytes => u32::from(bytes),
                    };
                }
                (OPTION_OFFSET, 8) => {
                    interface.offset_s = self.order.i64(input.take::<8>(WHAT)?);
                }
                _ => input.pass(padded, WHAT)?,
            }
        }
        input.pass(left, WHAT)?;
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(invalid(format!("more than {INTERFACES_MAX} interfaces")));
        }
        self.interfaces.push(interface);
        self.trailer(input, len)
    }

    /// A packet: interface, time in two words, bytes kept, bytes there were. An old one has a count of drops in the upper half of the interface's place.
    fn packet<R: Read>(&self, input: &mut Input<R>, kind: u32, len: u32) -> io::Result<Head> {
        let body = body_of(len, 20, input.at)?;
        let fixed = input.take::<20>("a packet's header")?;
        let [number, high, low, kept, original_len] = self.order.words(&fixed);
        let number = match kind {
            OLD_PACKET => u32::from(self.order.u16([fixed[0], fixed[1]])),
            _ => number,
        };
        let interface = self.interface_of(number, input.at)?;
        let time_ns = interface.time_ns(u64::from(high) << 32 | u64::from(low));
        let behind = room_behind(kept, body - 20, input.at)?;
        let head = Head {
            time_ns,
            len: kept as usize,
            original_len,
            interface: number,
            link: u32::from(interface.link),
            behind,
            trailer: Some(len),
        };
        Ok(head.without_check_sequence(interface.check_bytes))
    }

    /// A packet at the first interface, of which the bytes are known that there were, and those that were kept follow from the snap length.
    fn simple_packet<R: Read>(&self, input: &mut Input<R>, len: u32) -> io::Result<Head> {
        let body = body_of(len, 4, input.at)?;
        let original_len = self.order.u32(input.take::<4>("a packet's header")?);
        let interface = self.interface_of(0, input.at)?;
        let kept = match interface.snap {
            0 => original_len,
            snap => original_len.min(snap),
        };
        let behind = room_behind(kept, body - 4, input.at)?;
        let head = Head {
            time_ns: 0,
            len: kept as usize,
            original_len,
            interface: 0,
            link: u32::from(interface.link),
            behind,
            trailer: Some(len),
        };
        Ok(head.without_check_sequence(interface.check_bytes))
    }

    fn interface_of(&self, number: u32, at: u64) -> io::Result<&Interface> {
        let known = self.interfaces.len();
        self.interfaces.get(number as usize).ok_or_else(|| {
            invalid(format!(
                "a packet of interface {number}, and the section has {known} (before byte {at})"
            ))
        })
    }
}

impl Interface {
    /// A time in the interface's unit, in nanoseconds since 1970.
    fn time_ns(&self, units: u64) -> u64 {
        const NS: u128 = 1_000_000_000;
        let ns = match self.resolution {
            power @ 0..=0x7F => {
                let units_a_second = 10_u128.checked_pow(power.into());
                units_a_second.map_or(0, |a_second| match a_second <= NS {
                    true => u128::from(units) * (NS / a_second),
                    false => u128::from(units) / (a_second / NS),
                })
            }
            power => (u128::from(units) * NS) >> (power & 0x7F),
        };
        let offset_ns = i128::from(self.offset_s) * NS as i128;
        let ns = i128::try_from(ns)
            .unwrap_or(i128::MAX)
            .saturating_add(offset_ns);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// The bytes of a block's body, of which a reader needs `least`. A length that is no multiple of four leaves out the bytes that fill up the block,
/// as early writers had it.
fn body_of(len: u32, least: u32, at: u64) -> io::Result<u32> {
    if !(FRAMING + least..=BLOCK_BYTES_MAX).contains(&len) {
        let (least, most) = (FRAMING + least, BLOCK_BYTES_MAX);
        return Err(invalid(format!(
            "a block of {len} bytes, and {least} to {most} are possible (before byte {at})"
        )));
    }
    Ok(len.next_multiple_of(4) - FRAMING)
}

/// Bytes of a body of `room` that follow a packet of which `kept` bytes were kept.
fn room_behind(kept: u32, room: u32, at: u64) -> io::Result<u32> {
    if kept > RECORD_BYTES_MAX {
        return Err(too_many(kept, at));
    }
    room.checked_sub(kept).ok_or_else(|| {
        invalid(format!(
            "a packet of {kept} bytes in a block with room for {room} (before byte {at})"
        ))
    })
}
