//! The operators `checksum-verify` and `checksum-fill`: they find the checksums that an IP packet has, as a network card does.

#[cfg(test)]
mod tests;

use dpb_core::{
    Batch, BatchOut, ChecksumForm, ChecksumLayers, InPlace, JobError, Kernel, NotInPlace,
    OutputShape, SetupError, spec,
};

use super::{Checksum, Code, GROUP, Group, Piece, complement, oracle, transport, transport_piece};
use crate::entry::{Entry, own};
use crate::implementation::Implementation;
use crate::network::packet::workload::Packets;
use crate::network::packet::{Packet, PacketError, TCP, UDP, Version, put_u16, u16_at};

/// The offset of the checksum in an IPv4 header.
const HEADER_FIELD: usize = 10;

/// The registry's line for checks.
pub(crate) const VERIFY: Entry = Entry {
    scenario: "network",
    summary: "whether the checksums of IP packets are right",
    output: "1 byte per item: 1 IP right, 2 IP wrong, 4 transport right, 8 transport wrong, 16 no packet",
    source: "RFC 1071; RFC 791, RFC 9293, RFC 768, RFC 8200",
    paths: Checksum::PATHS,
    documentation: include_str!("../../../docs/checksum-verify.md"),
    ..Entry::of::<spec::ChecksumVerify>(
        |spec, path| {
            let layers = own::<spec::ChecksumVerify>(spec).layers;
            Ok(Box::new(ChecksumVerify::new(layers, path)?))
        },
        |case| {
            let layers = own::<spec::ChecksumVerify>(&case.spec).layers;
            let right = move |item: &[u8]| Ok(vec![verdict(layers, item).0]);
            Ok(Box::new(Packets::received(&case.spec, right)))
        },
    )
};

/// The registry's line for filling in.
pub(crate) const FILL: Entry = Entry {
    scenario: "network",
    summary: "fills in the checksums of IP packets",
    output: "the packet with its checksums; variable",
    source: "RFC 1071; RFC 791, RFC 9293, RFC 768, RFC 8200",
    paths: Checksum::PATHS,
    documentation: include_str!("../../../docs/checksum-fill.md"),
    ..Entry::of::<spec::ChecksumFill>(
        |spec, path| {
            let layers = own::<spec::ChecksumFill>(spec).layers;
            Ok(Box::new(ChecksumFill::new(layers, path)?))
        },
        |case| {
            let layers = own::<spec::ChecksumFill>(&case.spec).layers;
            let right = move |item: &[u8]| filled(layers, item);
            Ok(Box::new(Packets::unfilled(&case.spec, right)))
        },
    )
};

/// Says of each item, which is an IP packet, whether its checksums are right. Its outputs are [`Verdict`]s.
#[derive(Clone, Copy, Debug)]
pub struct ChecksumVerify {
    layers: ChecksumLayers,
    code: Code,
}

/// Fills in the checksums of each item, which is an IP packet; in place too.
#[derive(Clone, Copy, Debug)]
pub struct ChecksumFill {
    layers: ChecksumLayers,
    code: Code,
}

/// The verdict of `checksum-verify` on a packet: the bits below. A checksum that the packet does not have, or was not asked for, sets none.
///
/// ```
/// use dpb_operators::network::checksum::Verdict;
///
/// let verdict = Verdict(Verdict::IP_RIGHT | Verdict::TRANSPORT_WRONG);
/// assert!(!verdict.is_accepted());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict(
    /// The output byte.
    pub u8,
);

impl Verdict {
    /// The checksum of the IPv4 header is right.
    pub const IP_RIGHT: u8 = 1;
    /// The checksum of the IPv4 header is wrong.
    pub const IP_WRONG: u8 = 2;
    /// The checksum of TCP or UDP is right.
    pub const TRANSPORT_RIGHT: u8 = 4;
    /// The checksum of TCP or UDP is wrong.
    pub const TRANSPORT_WRONG: u8 = 8;
    /// The item is no IP packet, or its lengths disagree.
    pub const NO_PACKET: u8 = 16;

    /// True if the item is a packet and none of its checksums is wrong.
    pub fn is_accepted(self) -> bool {
        self.0 & (Self::IP_WRONG | Self::TRANSPORT_WRONG | Self::NO_PACKET) == 0
    }
}

/// The checksums that a packet has.
struct Found<'a> {
    /// Bytes of the packet, without those that pad it.
    len: usize,
    /// The IPv4 header.
    header: Option<&'a [u8]>,
    transport: Option<Transport<'a>>,
}

/// The transport of a packet, whose checksum covers all of it.
struct Transport<'a> {
    /// The bytes that are summed; the field counts.
    piece: Piece<'a>,
    /// The offset of the field in the packet.
    field: usize,
    is_udp: bool,
    /// False if the field of UDP says that there is no checksum, which IPv6 forbids.
    is_there: bool,
    version: Version,
}

impl<'a> Found<'a> {
    /// The checksums of `item` in `layers`.
    ///
    /// # Errors
    /// [`PacketError::Malformed`].
    // What it gives is made of many parts: copied just after it was written, it would be waited for.
    #[inline(always)]
    fn of(layers: ChecksumLayers, item: &'a [u8]) -> Result<Self, PacketError> {
        let packet = Packet::parse_padded(item)?;
        let is_v4 = packet.version() == Version::V4;
        let header = (is_v4 && layers != ChecksumLayers::Transport).then(|| packet.headers());
        let transport = match layers {
            ChecksumLayers::Ip => None,
            ChecksumLayers::All | ChecksumLayers::Transport => Transport::of(packet)?,
        };
        Ok(Self {
            len: packet.bytes().len(),
            header,
            transport,
        })
    }
}

impl<'a> Transport<'a> {
    /// Neither fragments nor packets that are still routed have a checksum that can be looked at.
    #[inline(always)]
    fn of(packet: Packet<'a>) -> Result<Option<Self>, PacketError> {
        let (protocol, payload_at) = (packet.protocol(), packet.headers().len());
        let field = match protocol {
            TCP => payload_at + 16,
            UDP => payload_at + 6,
            _ => return Ok(None),
        };
        let segment = match transport(packet, protocol) {
            Err(PacketError::Fragment | PacketError::Routed) => return Ok(None),
            segment => segment?,
        };
        let is_udp = protocol == UDP;
        Ok(Some(Self {
            piece: transport_piece(packet, segment),
            field,
            is_udp,
            is_there: !is_udp || u16_at(packet.bytes(), field) != 0,
            version: packet.version(),
        }))
    }
}

impl ChecksumVerify {
    /// Makes it on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn new(layers: ChecksumLayers, path: Implementation) -> Result<Self, SetupError> {
        let code = Code::on("checksum-verify", path)?;
        Ok(Self { layers, code })
    }

    fn verify(&self, batch: &Batch<'_>, verdicts: &mut [u8]) {
        for (first, verdicts) in (0..).step_by(GROUP).zip(verdicts.chunks_mut(GROUP)) {
            let (mut headers, mut transports) = (Group::empty(), Group::empty());
            for (i, verdict) in verdicts.iter_mut().enumerate() {
                *verdict = match Found::of(self.layers, batch.item(first + i)) {
                    Ok(found) => doubted(found, i, &mut headers, &mut transports),
                    Err(_) => Verdict::NO_PACKET,
                };
            }
            for (group, wrong, right) in [
                (&headers, Verdict::IP_WRONG, Verdict::IP_RIGHT),
                (
                    &transports,
                    Verdict::TRANSPORT_WRONG,
                    Verdict::TRANSPORT_RIGHT,
                ),
            ] {
                if verdicts.iter().any(|verdict| verdict & wrong != 0) {
                    let checksums = self.code.checksums(group, verdicts.len());
                    for (verdict, checksum) in verdicts.iter_mut().zip(checksums) {
                        // What holds its right checksum gives zero. What is not there gives 0xffff.
                        if checksum == 0 {
                            *verdict ^= wrong | right;
                        }
                    }
                }
            }
        }
    }
}

/// The verdict on packet `i` before its sums are known: each checksum that it has is wrong. What is to be summed goes into the groups.
fn doubted<'a>(
    found: Found<'a>,
    i: usize,
    headers: &mut Group<'a>,
    transports: &mut Group<'a>,
) -> u8 {
    let mut verdict = 0;
    if let Some(bytes) = found.header {
        headers.set(i, Piece { bytes, plus: 0 });
        verdict |= Verdict::IP_WRONG;
    }
    match found.transport {
        Some(transport) if transport.is_there => {
            transports.set(i, transport.piece);
            verdict |= Verdict::TRANSPORT_WRONG;
        }
        // Such a packet must be dropped (RFC 8200, 8.1).
        Some(transport) if transport.version == Version::V6 => verdict |= Verdict::TRANSPORT_WRONG,
        _ => {}
    }
    verdict
}

impl Kernel for ChecksumVerify {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(1)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        1
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.fixed(&batch, 1, |batch, verdicts| self.verify(batch, verdicts));
        Ok(())
    }
}

/// The fields that are written into a packet.
#[derive(Clone, Copy)]
struct Fields {
    /// Bytes of the packet.
    len: Result<usize, PacketError>,
    /// The checksum of the IPv4 header, little endian.
    header: Option<u16>,
    /// The offset of the transport's field and its checksum, little endian.
    transport: Option<(usize, u16)>,
}

impl Fields {
    /// Bytes of the packet, if `room` is enough for it.
    fn len_within(self, room: usize) -> Result<usize, JobError> {
        let len = self.len.map_err(PacketError::refusal)?;
        (len <= room).then_some(len).ok_or(JobError::DstTooShort)
    }

    /// Writes them into the packet.
    fn put(self, packet: &mut [u8]) {
        let mut put = |at: usize, checksum: u16| {
            packet[at..at + 2].copy_from_slice(&checksum.to_le_bytes());
        };
        if let Some(checksum) = self.header {
            put(HEADER_FIELD, checksum);
        }
        if let Some((at, checksum)) = self.transport {
            put(at, checksum);
        }
    }
}

impl ChecksumFill {
    /// Makes it on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn new(layers: ChecksumLayers, path: Implementation) -> Result<Self, SetupError> {
        let code = Code::on("checksum-fill", path)?;
        Ok(Self { layers, code })
    }

    /// The fields to write into the packets that the first `count` of `items` are.
    fn fields(&self, items: &[&[u8]; GROUP], count: usize) -> [Fields; GROUP] {
        let (mut headers, mut transports) = (Group::empty(), Group::empty());
        let mut fields = [Fields {
            len: Err(PacketError::Malformed),
            header: None,
            transport: None,
        }; GROUP];
        let mut is_udp = [false; GROUP];
        for (i, item) in items[..count].iter().enumerate() {
            let found = match Found::of(self.layers, item) {
                Ok(found) => found,
                Err(error) => {
                    fields[i].len = Err(error);
                    continue;
                }
            };
            fields[i].len = Ok(found.len);
            if let Some(bytes) = found.header {
                let plus = complement(bytes, HEADER_FIELD);
                headers.set(i, Piece { bytes, plus });
                fields[i].header = Some(0);
            }
            if let Some(mut transport) = found.transport {
                transport.piece.plus += complement(item, transport.field);
                transports.set(i, transport.piece);
                fields[i].transport = Some((transport.field, 0));
                is_udp[i] = transport.is_udp;
            }
        }
        if fields.iter().any(|fields| fields.header.is_some()) {
            let checksums = self.code.checksums(&headers, count);
            for (fields, checksum) in fields.iter_mut().zip(checksums) {
                fields.header = fields.header.map(|_| checksum);
            }
        }
        if fields.iter().any(|fields| fields.transport.is_some()) {
            let checksums = self.code.checksums(&transports, count);
            for ((fields, checksum), is_udp) in fields.iter_mut().zip(checksums).zip(is_udp) {
                // UDP's zero would say that there is no checksum (RFC 768).
                let written = if is_udp && checksum == 0 {
                    0xffff
                } else {
                    checksum
                };
                fields.transport = fields.transport.map(|(at, _)| (at, written));
            }
        }
        fields
    }
}

impl Kernel for ChecksumFill {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        Ok(0)
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        let BatchOut {
            mut slots,
            outcomes,
        } = out;
        for first in (0..batch.len()).step_by(GROUP) {
            let count = GROUP.min(batch.len() - first);
            let mut items: [&[u8]; GROUP] = [&[]; GROUP];
            for (i, item) in items[..count].iter_mut().enumerate() {
                *item = batch.item(first + i);
            }
            let fields = self.fields(&items, count);
            for (i, (item, fields)) in items.iter().zip(fields).take(count).enumerate() {
                let slot = &mut slots[first + i];
                outcomes.push(fields.len_within(slot.len()).map(|len| {
                    slot[..len].copy_from_slice(&item[..len]);
                    fields.put(slot);
                    len as u32
                }));
            }
        }
        Ok(())
    }

    fn run_in_place(&self, work: InPlace<'_>, (): &mut ()) -> Result<(), JobError> {
        let InPlace { items, outcomes } = work;
        let mut items = items.peekable();
        while items.peek().is_some() {
            let mut packets: [&mut [u8]; GROUP] = Default::default();
            let mut rooms = [0; GROUP];
            let mut count = 0;
            for ((packet, room), overlay) in packets.iter_mut().zip(&mut rooms).zip(&mut items) {
                *packet = &mut overlay.bytes[..overlay.item_len];
                *room = overlay.slot_len;
                count += 1;
            }
            let fields = self.fields(&packets.each_ref().map(|packet| &**packet), count);
            for ((packet, room), fields) in packets.into_iter().zip(rooms).zip(fields).take(count) {
                outcomes.push(fields.len_within(room).map(|len| {
                    fields.put(packet);
                    len as u32
                }));
            }
        }
        Ok(())
    }
}

/// The right verdict on `item`: each checksum is computed as the RFCs say, and compared with its field.
fn verdict(layers: ChecksumLayers, item: &[u8]) -> Verdict {
    let Ok(packet) = Packet::parse_padded(item) else {
        return Verdict(Verdict::NO_PACKET);
    };
    let mut bits = 0;
    let judged = |right: u16, at: usize, [yes, no]: [u8; 2]| {
        // In one's complement both of these are zero.
        let [right, field] =
            [right, u16_at(item, at)].map(|sum| if sum == 0xffff { 0 } else { sum });
        if right == field { yes } else { no }
    };
    if let Some(right) = header_checksum(layers, packet) {
        bits |= judged(right, HEADER_FIELD, [Verdict::IP_RIGHT, Verdict::IP_WRONG]);
    }
    let words = [Verdict::TRANSPORT_RIGHT, Verdict::TRANSPORT_WRONG];
    match transport_checksum(layers, packet) {
        Err(_) => return Verdict(Verdict::NO_PACKET),
        Ok(Some((_, at))) if packet.protocol() == UDP && u16_at(item, at) == 0 => {
            if packet.version() == Version::V6 {
                // Such a packet must be dropped (RFC 8200, 8.1).
                bits |= Verdict::TRANSPORT_WRONG;
            }
        }
        Ok(Some((right, at))) => bits |= judged(right, at, words),
        Ok(None) => {}
    }
    Verdict(bits)
}

/// The packet that `item` is, each checksum as the RFCs say.
fn filled(layers: ChecksumLayers, item: &[u8]) -> Result<Vec<u8>, PacketError> {
    let packet = Packet::parse_padded(item)?;
    let mut bytes = packet.bytes().to_vec();
    if let Some(checksum) = header_checksum(layers, packet) {
        put_u16(&mut bytes, HEADER_FIELD, checksum);
    }
    if let Some((checksum, at)) = transport_checksum(layers, packet)? {
        put_u16(&mut bytes, at, checksum);
    }
    Ok(bytes)
}

fn header_checksum(layers: ChecksumLayers, packet: Packet<'_>) -> Option<u16> {
    let is_asked = layers != ChecksumLayers::Transport && packet.version() == Version::V4;
    is_asked.then(|| oracle(ChecksumForm::Ipv4, packet.bytes()).expect("an IPv4 header"))
}

/// The checksum of a packet's transport, and the offset of its field.
fn transport_checksum(
    layers: ChecksumLayers,
    packet: Packet<'_>,
) -> Result<Option<(u16, usize)>, PacketError> {
    let (form, at) = match packet.protocol() {
        _ if layers == ChecksumLayers::Ip => return Ok(None),
        TCP => (ChecksumForm::Tcp, 16),
        UDP => (ChecksumForm::Udp, 6),
        _ => return Ok(None),
    };
    match oracle(form, packet.bytes()) {
        Ok(checksum) => Ok(Some((checksum, packet.headers().len() + at))),
        Err(PacketError::Fragment | PacketError::Routed) => Ok(None),
        Err(error) => Err(error),
    }
}
