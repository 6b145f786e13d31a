//! Capture files: pcap, in the classic format that libpcap and Wireshark read and write, and pcapng, which Wireshark writes by itself. Either byte
//! order, all resolutions of times, several interfaces and sections.
//!
//! Layouts: [`Format::Pcap`] is a header of 24 bytes, whose first four tell byte order and resolution; then records, each a header of 16 bytes (seconds,
//! fraction, bytes kept, bytes there were) and the packet. `pcapng.rs` has the other one.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;
use std::sync::Arc;

use dpb_core::port::{Arrivals, Dating, PacketPort, PortStats};
use dpb_core::{Buf, Clock, SetupError};

use super::pool::{Frame, Pool};
use super::{BYTES_MAX, Unfit, pooled, zeroed};
pub use format::{ByteOrder, Format, Record, Resolution};
use format::{Head, LINK_ETHERNET};
pub use reader::{Reader, packets};
pub use writer::Writer;

mod format;
mod input;
mod pcapng;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

/// Frames that a port has for packets; longer packets, and those beyond their number, come from the heap.
const FRAMES: u32 = 1024;
const FRAME_BYTES: usize = 2048;

/// A port that receives what one file holds and sends to another. Either may be missing: then nothing comes, or what is
/// sent is dropped.
///
/// A packet that is no whole Ethernet frame (it is shorter than the header, a part was captured, or it is of another kind of link) is passed over, and counts as
/// [`malformed`](dpb_core::port::Losses::malformed) among those that were lost. A call that passed packets over may give fewer than there are: the
/// [end](PacketPort::is_at_end) is where there are none. A file that breaks its format is an error, and ends there.
pub struct Capture {
    name: String,
    reader: Option<Reader<BufReader<File>>>,
    writer: Option<(Writer<BufWriter<File>>, Dates)>,
    pool: Pool,
    times_ns: Vec<u64>,
    stats: PortStats,
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

impl Capture {
    /// Receives from the file `from`; sends to the file `to`, which is made anew, with these dates: in pcapng if its name ends in `.pcapng`, else in pcap with
    /// nanoseconds.
    ///
    /// # Errors
    /// A file cannot be opened or made, or `from` is no pcap or pcapng file of Ethernet frames.
    pub fn open(from: Option<&Path>, to: Option<(&Path, Dates)>) -> io::Result<Self> {
        let shown =
            |path: Option<&Path>| path.map_or("-".to_owned(), |path| path.display().to_string());
        let name = format!(
            "capture {} to {}",
            shown(from),
            shown(to.as_ref().map(|(path, _)| *path))
        );
        let reader = from.map(|path| {
            let reader = File::open(path).and_then(|file| Reader::new(BufReader::new(file)));
            reader.map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        });
        let writer = to.map(|(path, dates)| {
            let format = match path
                .extension()
                .is_some_and(|extension| extension == "pcapng")
            {
                true => Format::PcapNg(ByteOrder::default()),
                false => Format::Pcap(ByteOrder::default(), Resolution::default()),
            };
            let writer = Writer::new(BufWriter::new(File::create(path)?), format)?;
            Ok::<_, io::Error>((writer, dates))
        });
        Ok(Self {
            name,
            reader: reader.transpose()?,
            writer: writer.transpose()?,
            pool: Pool::new(FRAMES, FRAME_BYTES)?,
            times_ns: Vec::new(),
            stats: PortStats::default(),
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

    /// The next packet of the file, and its time; `None` at the end, and instead of a packet that was passed over.
    fn next(&mut self) -> io::Result<Option<(Buf, u64)>> {
        let Some(reader) = &mut self.reader else {
            return Ok(None);
        };
        let Some(head) = reader.head()? else {
            return Ok(None);
        };
        if !head.is_whole() {
            reader.pass(&head)?;
            count_lost(&head, &mut self.stats);
            return Ok(None);
        }
        let short = (head.len <= FRAME_BYTES)
            .then(|| self.pool.take())
            .flatten();
        let buf = match short {
            Some(frame) => read_into(reader, &head, &mut self.pool, frame)?,
            None => {
                let mut buf = Buf::zeroed(head.len).ok_or(io::ErrorKind::OutOfMemory)?;
                reader.bytes(&head, &mut buf)?;
                buf
            }
        };
        self.stats.delivered.add(head.len);
        Ok(Some((buf, head.time_ns)))
    }
}

/// The packet behind `head` in a frame.
fn read_into(
    reader: &mut Reader<BufReader<File>>,
    head: &Head,
    pool: &mut Pool,
    mut frame: Frame,
) -> io::Result<Buf> {
    let read = reader.bytes(head, &mut pool.bytes_mut(&mut frame)[..head.len]);
    match read {
        Ok(()) => Ok(pool.buf(frame, 0, head.len)),
        Err(error) => {
            pool.give(frame);
            Err(error)
        }
    }
}

fn count_lost(head: &Head, stats: &mut PortStats) {
    match head.link == LINK_ETHERNET && head.len > BYTES_MAX {
        true => stats.receive_lost.too_long += 1,
        false => stats.receive_lost.malformed += 1,
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
        pooled(&mut self.pool, len, BYTES_MAX).or_else(|_| zeroed(len, BYTES_MAX))
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        self.times_ns.clear();
        for _ in 0..max {
            match self.next()? {
                Some((packet, time_ns)) => {
                    packets.push(packet);
                    self.times_ns.push(time_ns);
                }
                None if self.is_at_end() => break,
                None => {}
            }
        }
        Ok(self.times_ns.len())
    }

    fn is_at_end(&self) -> bool {
        self.reader.as_ref().is_none_or(Reader::is_over)
    }

    fn arrivals(&self) -> Arrivals<'_> {
        Arrivals {
            by: Dating::File,
            times_ns: &self.times_ns,
        }
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let mut writer = self.writer.as_mut();
        let now_ns = writer.as_ref().map_or(0, |(_, dates)| dates.now_ns());
        let mut taken = 0;
        while let Some(packet) = packets.front() {
            if packet.len() > BYTES_MAX {
                let (len, max) = (packet.len(), BYTES_MAX);
                return Unfit::TooLong { len, max }.refused(taken, &mut self.stats);
            }
            if let Some((writer, _)) = &mut writer {
                writer.write(now_ns, packet)?;
            }
            self.stats.taken.add(packet.len());
            packets.pop_front();
            taken += 1;
        }
        Ok(taken)
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.stats;
        stats.sent = stats.taken;
        stats
    }
}
