//! pcap files, in the classic format that libpcap and Wireshark read and write: either byte order, micro- and
//! nanoseconds.
//!
//! Layout (draft-ietf-opsawg-pcap): a header of 24 bytes, whose first four tell byte order and resolution; then
//! records, each a header of 16 bytes (seconds, fraction, bytes kept, bytes there were) and the packet.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use dpb_core::{Buf, Clock, SetupError};

use super::{BYTES_MAX, PacketPort, copied, too_long, zeroed};

/// Magic number of files with microseconds, in the byte order of the machine that wrote the file.
const MAGIC_US: u32 = 0xA1B2_C3D4;
/// Magic number of files with nanoseconds.
const MAGIC_NS: u32 = 0xA1B2_3C4D;
/// Ethernet frames.
const LINK_ETHERNET: u32 = 1;
/// Longest record that is read: as long as libpcap takes.
const RECORD_BYTES_MAX: u32 = 262_144;

/// The byte order of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// Little endian, as x86 and Arm.
    #[default]
    Little,
    /// Big endian, as networks.
    Big,
}

/// The unit of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// Microseconds, as most programs write.
    Microseconds,
    /// Nanoseconds, as some programs write.
    #[default]
    Nanoseconds,
}

/// A packet out of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The time at which it came, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The bytes of the packet that were kept.
    pub bytes: Vec<u8>,
    /// Bytes that it had.
    pub original_len: u32,
}

impl Record {
    /// All of the packet, as a port may hand it out.
    fn whole(&self) -> io::Result<&[u8]> {
        let (kept, had) = (self.bytes.len(), self.original_len);
        if kept > BYTES_MAX {
            return Err(too_long(kept, BYTES_MAX));
        }
        // Some writers leave the other length 0.
        if (kept as u64) < u64::from(had) {
            return Err(invalid(format!(
                "a packet of {had} bytes of which {kept} were kept: capture anew without a snap length (tcpdump -s 0)"
            )));
        }
        Ok(&self.bytes)
    }
}

/// Reads a file from its start.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    order: ByteOrder,
    resolution: Resolution,
}

/// Writes a file.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    order: ByteOrder,
    resolution: Resolution,
}

/// A port that receives what one file holds and sends to another. Either may be missing: then nothing comes, or what is
/// sent is dropped. A packet of which a part was captured is an error, behind the packets before it.
pub struct Capture {
    name: String,
    reader: Option<Reader<BufReader<File>>>,
    writer: Option<(Writer<BufWriter<File>>, Dates)>,
}

/// The dates of packets that are sent to a file.
#[derive(Clone)]
pub struct Dates {
    /// The clock that is read for each burst.
    pub clock: Arc<dyn Clock>,
    /// The date at which the clock stood at zero, in nanoseconds since 1970. With 0, where dates do not matter, packets are dated
    /// from 1970 on.
    pub start_ns: u64,
}

impl Dates {
    fn now_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.clock.now_ns())
    }
}

impl ByteOrder {
    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    fn bytes(self, number: u32) -> [u8; 4] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is no pcap file, or not one of Ethernet frames; or what reading gives.
    pub fn new(mut input: R) -> io::Result<Self> {
        let mut header = [0; 24];
        input.read_exact(&mut header)?;
        let word = |order: ByteOrder, i: usize| {
            order.u32([header[i], header[i + 1], header[i + 2], header[i + 3]])
        };
        let magics = [
            (MAGIC_US, Resolution::Microseconds),
            (MAGIC_NS, Resolution::Nanoseconds),
        ];
        let found = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find_map(|order| {
                let known = magics.iter().find(|(magic, _)| word(order, 0) == *magic)?;
                Some((order, known.1))
            });
        let (order, resolution) =
            found.ok_or_else(|| invalid("no pcap file of the classic format".into()))?;
        // Its upper bits say how long the check sequence is, where there is one.
        let link = word(order, 20) & 0x0FFF_FFFF;
        if link != LINK_ETHERNET {
            return Err(invalid(format!(
                "packets of link type {link}, not of Ethernet (1)"
            )));
        }
        Ok(Self {
            input,
            order,
            resolution,
        })
    }

    /// The byte order and the resolution of the file.
    pub fn format(&self) -> (ByteOrder, Resolution) {
        (self.order, self.resolution)
    }

    /// The next packet; none at the file's end.
    ///
    /// # Errors
    /// The file ends inside a packet, says that one is longer than can be, or cannot be read.
    pub fn read(&mut self) -> io::Result<Option<Record>> {
        let Some((time_ns, len, original_len)) = self.read_header()? else {
            return Ok(None);
        };
        let mut bytes = vec![0; len];
        self.input.read_exact(&mut bytes)?;
        Ok(Some(Record {
            time_ns,
            bytes,
            original_len,
        }))
    }

    /// The next packet's time in nanoseconds, the bytes that were kept of it, and the bytes that it had.
    fn read_header(&mut self) -> io::Result<Option<(u64, usize, u32)>> {
        let mut header = [0; 16];
        // An end is an end only between packets.
        let first = self.input.read(&mut header[..1])?;
        if first == 0 {
            return Ok(None);
        }
        self.input.read_exact(&mut header[1..])?;
        let (words, _) = header.as_chunks::<4>();
        let [seconds, fraction, len, original_len] = [0, 1, 2, 3].map(|i| self.order.u32(words[i]));
        if len > RECORD_BYTES_MAX {
            return Err(invalid(format!(
                "a packet of {len} bytes, more than {RECORD_BYTES_MAX}"
            )));
        }
        let fraction_ns = match self.resolution {
            Resolution::Microseconds => u64::from(fraction) * 1000,
            Resolution::Nanoseconds => u64::from(fraction),
        };
        let time_ns = u64::from(seconds) * 1_000_000_000 + fraction_ns;
        Ok(Some((time_ns, len as usize, original_len)))
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
        let Some((_, len, _)) = reader.read_header()? else {
            return Ok(None);
        };
        let start = file.len() - reader.input.len();
        let rest = reader.input.get(len..);
        reader.input = rest.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Some(start..start + len))
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

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What writing gives.
    pub fn new(mut output: W, order: ByteOrder, resolution: Resolution) -> io::Result<Self> {
        let magic = match resolution {
            Resolution::Microseconds => MAGIC_US,
            Resolution::Nanoseconds => MAGIC_NS,
        };
        let version = match order {
            ByteOrder::Little => [2, 0, 4, 0],
            ByteOrder::Big => [0, 2, 0, 4],
        };
        let [magic, nothing, longest, link] =
            [magic, 0, RECORD_BYTES_MAX, LINK_ETHERNET].map(|word| order.bytes(word));
        output.write_all(&[magic, version, nothing, nothing, longest, link].concat())?;
        Ok(Self {
            output,
            order,
            resolution,
        })
    }

    /// Adds a packet that came `time_ns` after 1970 began. The format has room for seconds up to 2106.
    ///
    /// # Errors
    /// It is longer than 262144 bytes, or what writing gives.
    pub fn write(&mut self, time_ns: u64, packet: &[u8]) -> io::Result<()> {
        if packet.len() > RECORD_BYTES_MAX as usize {
            return Err(too_long(packet.len(), RECORD_BYTES_MAX as usize));
        }
        let fraction_ns = (time_ns % 1_000_000_000) as u32;
        let fraction = match self.resolution {
            Resolution::Microseconds => fraction_ns / 1000,
            Resolution::Nanoseconds => fraction_ns,
        };
        let len = packet.len() as u32;
        let header = [(time_ns / 1_000_000_000) as u32, fraction, len, len];
        self.output
            .write_all(&header.map(|word| self.order.bytes(word)).concat())?;
        self.output.write_all(packet)
    }

    /// The writer, with all that was written to it.
    pub fn into_inner(self) -> W {
        self.output
    }

    /// Has all written that is held back.
    ///
    /// # Errors
    /// What writing gives.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl Capture {
    /// Receives from the file `from`; sends to the file `to`, which is made anew, with these dates.
    ///
    /// # Errors
    /// A file cannot be opened or made, or `from` is no pcap file of Ethernet frames.
    pub fn open(from: Option<&Path>, to: Option<(&Path, Dates)>) -> io::Result<Self> {
        let shown =
            |path: Option<&Path>| path.map_or("-".to_owned(), |path| path.display().to_string());
        let reader = from
            .map(|path| Reader::new(BufReader::new(File::open(path)?)))
            .transpose()?;
        let name = format!(
            "pcap {} to {}",
            shown(from),
            shown(to.as_ref().map(|(path, _)| *path))
        );
        let writer = to.map(|(path, dates)| {
            let output = BufWriter::new(File::create(path)?);
            let writer = Writer::new(output, ByteOrder::default(), Resolution::default())?;
            Ok::<_, io::Error>((writer, dates))
        });
        Ok(Self {
            name,
            reader,
            writer: writer.transpose()?,
        })
    }

    /// Has all written that was sent. Dropping the port does so, too, and cannot say if it fails.
    ///
    /// # Errors
    /// What writing gives.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.writer {
            Some((writer, _)) => writer.flush(),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl PacketPort for Capture {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        BYTES_MAX
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        zeroed(len, BYTES_MAX)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let Some(reader) = &mut self.reader else {
            return Ok(0);
        };
        for came in 0..max {
            match reader.read()? {
                Some(record) => packets.push(copied(record.whole()?)?),
                None => return Ok(came),
            }
        }
        Ok(max)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let mut writer = self.writer.as_mut();
        let now_ns = writer.as_ref().map_or(0, |(_, dates)| dates.now_ns());
        let mut taken = 0;
        while let Some(packet) = packets.front() {
            if packet.len() > BYTES_MAX {
                return Err(too_long(packet.len(), BYTES_MAX));
            }
            if let Some((writer, _)) = &mut writer {
                writer.write(now_ns, packet)?;
            }
            packets.pop_front();
            taken += 1;
        }
        Ok(taken)
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: [(ByteOrder, Resolution); 4] = [
        (ByteOrder::Little, Resolution::Microseconds),
        (ByteOrder::Little, Resolution::Nanoseconds),
        (ByteOrder::Big, Resolution::Microseconds),
        (ByteOrder::Big, Resolution::Nanoseconds),
    ];

    fn written(order: ByteOrder, resolution: Resolution) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), order, resolution).expect("memory");
        for (i, len) in [60, 0, 1514].into_iter().enumerate() {
            let time_ns = 1_700_000_000_123_456_789 + i as u64;
            writer.write(time_ns, &vec![i as u8; len]).expect("memory");
        }
        writer.into_inner()
    }

    #[test]
    fn what_is_not_whole_or_too_long_is_no_packet() {
        let record = |len, original_len| Record {
            time_ns: 0,
            bytes: vec![0; len],
            original_len,
        };
        let max = BYTES_MAX as u32;
        assert!(record(BYTES_MAX, max).whole().is_ok() && record(60, 0).whole().is_ok());
        assert!(record(BYTES_MAX + 1, max + 1).whole().is_err());
        let cut = record(96, 1514).whole().expect_err("96 bytes of it");
        assert!(cut.to_string().contains("1514 bytes of which 96"), "{cut}");
    }

    #[test]
    fn packets_in_memory_lie_where_reading_finds_them() {
        for (order, resolution) in FORMATS {
            let bytes = written(order, resolution);
            let mut reader = Reader::new(&bytes[..]).expect("a pcap file");
            for place in packets(&bytes).expect("a pcap file") {
                let record = reader.read().expect("whole").expect("as many");
                assert_eq!(bytes[place.expect("whole")], record.bytes[..]);
            }
            assert_eq!(reader.read().expect("the end"), None);
            // Cut inside the last packet, and inside its header.
            for cut in [1, 1514 + 3] {
                let places = packets(&bytes[..bytes.len() - cut]).expect("a pcap file");
                let is_right: Vec<bool> = places.map(|place| place.is_ok()).collect();
                assert_eq!(is_right, [true, true, false], "{cut}");
            }
        }
        assert!(packets(b"no pcap file, but long enough to be one").is_err());
    }

    #[test]
    fn what_is_written_is_read_in_every_format() {
        for (order, resolution) in FORMATS {
            let bytes = written(order, resolution);
            let mut reader = Reader::new(&bytes[..]).expect("a pcap file");
            assert_eq!(reader.format(), (order, resolution));
            for (i, len) in [60_u32, 0, 1514].into_iter().enumerate() {
                let record = reader.read().expect("whole").expect("three");
                let time_ns = match resolution {
                    Resolution::Nanoseconds => 1_700_000_000_123_456_789 + i as u64,
                    Resolution::Microseconds => 1_700_000_000_123_456_000,
                };
                assert_eq!((record.time_ns, record.original_len), (time_ns, len));
                assert_eq!(record.bytes, vec![i as u8; len as usize]);
            }
            assert_eq!(reader.read().expect("the end"), None);
        }
    }

    #[test]
    fn what_is_no_file_is_refused_wherever_it_ends() {
        let bytes = written(ByteOrder::Little, Resolution::Nanoseconds);
        // Between packets an end is none too early.
        let ends = [24, 24 + 16 + 60, 24 + 2 * 16 + 60];
        for len in 0..bytes.len() {
            let read_all = || {
                let mut reader = Reader::new(&bytes[..len])?;
                while reader.read()?.is_some() {}
                Ok::<(), io::Error>(())
            };
            assert_eq!(read_all().is_ok(), ends.contains(&len), "{len}");
        }
        let mut other_link = bytes.clone();
        other_link[20] = 101;
        assert!(Reader::new(&other_link[..]).is_err());
        let mut too_long = bytes;
        too_long[24 + 8..24 + 12].copy_from_slice(&[0xFF; 4]);
        assert!(
            Reader::new(&too_long[..])
                .expect("its header")
                .read()
                .is_err()
        );
        assert!(Reader::new(&[0; 24][..]).is_err());
    }
}
