//! Capture files, written.

use std::io::{self, Write};

use dpb_core::port::too_long;

use super::format::{
    ByteOrder, Format, LINK_ETHERNET, MAGIC_NS, MAGIC_US, RECORD_BYTES_MAX, Resolution,
};
use super::pcapng::{INTERFACE, OPTION_RESOLUTION, ORDER_MAGIC, PACKET, SECTION};

/// Writes a file.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    format: Format,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What writing gives.
    pub fn new(mut output: W, format: Format) -> io::Result<Self> {
        match format {
            Format::Pcap(order, resolution) => {
                let magic = match resolution {
                    Resolution::Microseconds => MAGIC_US,
                    Resolution::Nanoseconds => MAGIC_NS,
                };
                let version = [order.bytes_of_two(2), order.bytes_of_two(4)].concat();
                let [magic, nothing, longest, link] =
                    [magic, 0, RECORD_BYTES_MAX, LINK_ETHERNET].map(|word| order.bytes(word));
                let parts: [&[u8]; 6] = [&magic, &version, &nothing, &nothing, &longest, &link];
                output.write_all(&parts.concat())?;
            }
            Format::PcapNg(order) => {
                let version = [order.bytes_of_two(1), order.bytes_of_two(0)].concat();
                let magic = order.bytes(ORDER_MAGIC);
                // Of a length that is not known.
                let parts: [&[u8]; 3] = [&magic, &version, &[0xFF; 8]];
                block(&mut output, order, SECTION, &parts)?;
                let link = [order.bytes_of_two(LINK_ETHERNET as u16), [0; 2]].concat();
                let longest = order.bytes(RECORD_BYTES_MAX);
                let option =
                    [order.bytes_of_two(OPTION_RESOLUTION), order.bytes_of_two(1)].concat();
                // Nanoseconds; the last word ends the options.
                let parts: [&[u8]; 5] = [&link, &longest, &option, &[9, 0, 0, 0], &[0; 4]];
                block(&mut output, order, INTERFACE, &parts)?;
            }
        }
        Ok(Self { output, format })
    }

    /// Adds a packet that came `time_ns` after 1970 began. The classic format has room for seconds up to 2106.
    ///
    /// # Errors
    /// It is longer than 262144 bytes, or what writing gives.
    pub fn write(&mut self, time_ns: u64, packet: &[u8]) -> io::Result<()> {
        if packet.len() > RECORD_BYTES_MAX as usize {
            return Err(too_long(packet.len(), RECORD_BYTES_MAX as usize));
        }
        let len = packet.len() as u32;
        match self.format {
            Format::Pcap(order, resolution) => {
                let fraction_ns = (time_ns % 1_000_000_000) as u32;
                let fraction = match resolution {
                    Resolution::Microseconds => fraction_ns / 1000,
                    Resolution::Nanoseconds => fraction_ns,
                };
                let header = [(time_ns / 1_000_000_000) as u32, fraction, len, len];
                let header = header.map(|word| order.bytes(word));
                self.output.write_all(header.as_flattened())?;
                self.output.write_all(packet)
            }
            Format::PcapNg(order) => {
                let header = [0, (time_ns >> 32) as u32, time_ns as u32, len, len];
                let header = header.map(|word| order.bytes(word));
                let filling = &[0; 3][..packet.len().next_multiple_of(4) - packet.len()];
                let parts = [header.as_flattened(), packet, filling];
                block(&mut self.output, order, PACKET, &parts)
            }
        }
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

/// Writes a block of pcapng, whose parts are a multiple of four bytes together.
fn block(output: &mut impl Write, order: ByteOrder, kind: u32, parts: &[&[u8]]) -> io::Result<()> {
    let body: usize = parts.iter().map(|part| part.len()).sum();
    let len = order.bytes(body as u32 + 12);
    let start = [order.bytes(kind), len];
    output.write_all(start.as_flattened())?;
    for part in parts {
        output.write_all(part)?;
    }
    output.write_all(&len)
}
