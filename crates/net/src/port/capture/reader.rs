//! Capture files, read from their start: one packet after another, whatever the format.

use std::io::{self, Read};
use std::ops::Range;

use super::format::{
    ByteOrder, Format, Head, LINK_ETHERNET, MAGIC_NS, MAGIC_US, RECORD_BYTES_MAX, Record,
    Resolution, invalid, not_ethernet, too_many,
};
use super::input::Input;
use super::pcapng::{self, Sections};

/// Files that are recognised to be refused: the first bytes, and what to do.
const OTHERS: [(&[u8], &str); 6] = [
    (
        &[0x1F, 0x8B],
        "compressed by gzip: unpack it first (gunzip)",
    ),
    (
        &[0x28, 0xB5, 0x2F, 0xFD],
        "compressed by zstd: unpack it first (unzstd)",
    ),
    (
        &[0x04, 0x22, 0x4D, 0x18],
        "compressed by lz4: unpack it first (unlz4)",
    ),
    (
        &[0x34, 0xCD, 0xB2, 0xA1],
        "of a patched libpcap, whose records are longer: convert it (editcap -F pcap)",
    ),
    (
        &[0xA1, 0xB2, 0xCD, 0x34],
        "of a patched libpcap, whose records are longer: convert it (editcap -F pcap)",
    ),
    (b"snoop\0\0\0", "of snoop: convert it (editcap -F pcap)"),
];

/// Reads a file from its start.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    kind: Kind,
    /// True at the end, and behind an error that leaves open where the next packet is.
    is_over: bool,
}

#[derive(Debug)]
enum Kind {
    Classic(Classic),
    Ng(Sections),
}

/// The header of a file of the classic format.
#[derive(Debug)]
struct Classic {
    order: ByteOrder,
    resolution: Resolution,
    /// Bytes of the check sequence behind each frame.
    check_bytes: u32,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is no pcap or pcapng file, or a pcap file of other frames than Ethernet's; or what reading gives.
    pub fn new(file: R) -> io::Result<Self> {
        let mut input = Input { file, at: 0 };
        let magic = input.take::<4>("its header")?;
        let kind = match magic {
            pcapng::SECTION_BYTES => Kind::Ng(Sections::begin(&mut input)?),
            _ => Kind::Classic(Classic::read(&mut input, magic)?),
        };
        Ok(Self {
            input,
            kind,
            is_over: false,
        })
    }

    /// The format of the file.
    pub fn format(&self) -> Format {
        match &self.kind {
            Kind::Classic(classic) => Format::Pcap(classic.order, classic.resolution),
            Kind::Ng(sections) => Format::PcapNg(sections.order()),
        }
    }

    /// True behind the last packet, once it was looked for, and behind an error that leaves open where the next packet is.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The next packet; none at the file's end. Of a packet that is no Ethernet frame there is an error, and reading may go on behind it.
    ///
    /// # Errors
    /// The file ends inside a packet, says what cannot be, or cannot be read: nothing more is read then. Or the packet came at an interface
    /// of other frames than Ethernet's.
    pub fn read(&mut self) -> io::Result<Option<Record>> {
        let Some(head) = self.head()? else {
            return Ok(None);
        };
        // At most `RECORD_BYTES_MAX`.
        let mut bytes = vec![0; head.len];
        self.bytes(&head, &mut bytes)?;
        if head.link != LINK_ETHERNET {
            return Err(not_ethernet(head.link));
        }
        Ok(Some(Record {
            time_ns: head.time_ns,
            bytes,
            original_len: head.original_len,
            interface: head.interface,
        }))
    }

    /// What stands in front of the next packet. Its bytes have to be read next, by [`Reader::bytes`] or [`Reader::pass`].
    pub(super) fn head(&mut self) -> io::Result<Option<Head>> {
        if self.is_over {
            return Ok(None);
        }
        let head = match &mut self.kind {
            Kind::Classic(classic) => classic.head(&mut self.input),
            Kind::Ng(sections) => sections.head(&mut self.input),
        };
        self.is_over = !matches!(head, Ok(Some(_)));
        head
    }

    /// Reads the packet's bytes into `room`, which is as long, and what follows them.
    pub(super) fn bytes(&mut self, head: &Head, room: &mut [u8]) -> io::Result<()> {
        let read = self.input.fill(room, "a packet");
        self.end(read, head)
    }

    /// Passes the packet's bytes over, and what follows them.
    pub(super) fn pass(&mut self, head: &Head) -> io::Result<()> {
        let passed = self.input.pass(head.len as u32, "a packet");
        self.end(passed, head)
    }

    fn end(&mut self, read: io::Result<()>, head: &Head) -> io::Result<()> {
        let input = &mut self.input;
        let ended = read
            .and_then(|()| input.pass(head.behind, "a packet"))
            .and_then(|()| match (&self.kind, head.trailer) {
                (Kind::Ng(sections), Some(len)) => sections.trailer(input, len),
                _ => Ok(()),
            });
        self.is_over = ended.is_err();
        ended
    }
}

impl Classic {
    /// The header behind the first four bytes: version, two words that nobody uses, the snap length, the kind of frames.
    fn read<R: Read>(input: &mut Input<R>, magic: [u8; 4]) -> io::Result<Self> {
        let magics = [
            (MAGIC_US, Resolution::Microseconds),
            (MAGIC_NS, Resolution::Nanoseconds),
        ];
        let found = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find_map(|order| {
                let known = magics
                    .iter()
                    .find(|(known, _)| order.u32(magic) == *known)?;
                Some((order, known.1))
            });
        let Some((order, resolution)) = found else {
            let other = OTHERS
                .iter()
                .find(|(first, _)| magic.starts_with(&first[..first.len().min(4)]));
            return Err(invalid(match other {
                Some((_, what)) => format!("a file {what}"),
                None => "no pcap or pcapng file".to_owned(),
            }));
        };
        let rest = input.take::<20>("its header")?;
        let [_, _, _, _, link] = order.words(&rest);
        // Its upper bits say how long the check sequence is, in words of two bytes, if the next bit says that they say so.
        let check_bytes = match link & (1 << 26) {
            0 => 0,
            _ => (link >> 28) * 2,
        };
        match link & 0xFFFF {
            LINK_ETHERNET => Ok(Self {
                order,
                resolution,
                check_bytes,
            }),
            other => Err(not_ethernet(other)),
        }
    }

    fn head<R: Read>(&self, input: &mut Input<R>) -> io::Result<Option<Head>> {
        let Some(header) = input.take_or_end::<16>("a packet's header")? else {
            return Ok(None);
        };
        let [seconds, fraction, len, original_len] = self.order.words(&header);
        if len > RECORD_BYTES_MAX {
            return Err(too_many(len, input.at));
        }
        let fraction_ns = match self.resolution {
            Resolution::Microseconds => u64::from(fraction) * 1000,
            Resolution::Nanoseconds => u64::from(fraction),
        };
        let head = Head {
            time_ns: u64::from(seconds) * 1_000_000_000 + fraction_ns,
            len: len as usize,
            original_len,
            interface: 0,
            link: LINK_ETHERNET,
            behind: 0,
            trailer: None,
        };
        Ok(Some(head.without_check_sequence(self.check_bytes)))
    }
}

/// The places of the packets in a file that is in memory whole, as far as they were kept.
///
/// # Errors
/// Those of [`Reader::new`]. An item is an error as [`Reader::read`] gives it, and the last one.
pub fn packets(file: &[u8]) -> io::Result<impl Iterator<Item = io::Result<Range<usize>>>> {
    let mut reader = Reader::new(file)?;
    let mut is_over = false;
    let mut next = move || {
        let Some(head) = reader.head()? else {
            return Ok(None);
        };
        let start = file.len() - reader.input.file.len();
        reader.pass(&head)?;
        match head.link {
            LINK_ETHERNET => Ok(Some(start..start + head.len)),
            other => Err(not_ethernet(other)),
        }
    };
    Ok(std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let packet = next().transpose();
        is_over = !matches!(packet, Some(Ok(_)));
        packet
    }))
}
