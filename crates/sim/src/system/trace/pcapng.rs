//! Captures in the format pcapng (draft-ietf-opsawg-pcapng): an interface for each captured end of a wire.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;

use super::super::frame::Frame;
use super::super::journey::Place;
use super::{Direction, Sink, Track};
use crate::kernel::NANOSECOND_PS;

/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Options of an interface: its name, and the power of ten of its times.
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
/// Option of a packet: flags, of which the lowest two bits are the direction.
const FLAGS: u16 = 2;
/// The link type of Ethernet.
const ETHERNET: u16 = 1;

/// A capture that goes on.
pub(super) struct Capture {
    file: Sink,
    /// The interface of each place that is captured.
    interfaces: BTreeMap<Place, u32>,
    /// Frames with stamps ahead of virtual time: by stamp, then by number.
    ahead: BinaryHeap<Reverse<(u64, u64, Vec<u8>)>>,
    number: u64,
    bytes: Vec<u8>,
}

impl Capture {
    pub(super) fn begin(mut file: Sink, tracks: &[Track]) -> io::Result<Self> {
        let mut section = vec![0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
        section.extend(u64::MAX.to_le_bytes());
        file.write_all(&block(SECTION, section))?;
        let mut interfaces = BTreeMap::new();
        let captured = tracks
            .iter()
            .filter_map(|track| Some((track.place, track.interface.as_ref()?)));
        for (number, (place, name)) in captured.enumerate() {
            let mut interface = Vec::from(u32::from(ETHERNET).to_le_bytes());
            // The length of the longest frame that is kept: no limit.
            interface.extend(0u32.to_le_bytes());
            option(&mut interface, NAME, name.as_bytes());
            option(&mut interface, RESOLUTION, &[9]);
            option(&mut interface, 0, &[]);
            file.write_all(&block(INTERFACE, interface))?;
            interfaces.insert(place, number as u32);
        }
        Ok(Self {
            file,
            interfaces,
            ahead: BinaryHeap::new(),
            number: 0,
            bytes: Vec::new(),
        })
    }

    /// Takes a frame. One that comes in does so now: virtual time never goes back from one of them to the next. One that goes out does so later.
    pub(super) fn frame(
        &mut self,
        place: Place,
        direction: Direction,
        stamp_ps: u64,
        frame: &Frame,
    ) -> io::Result<()> {
        if direction == Direction::In {
            self.write_before(stamp_ps)?;
        }
        let Some(&interface) = self.interfaces.get(&place) else {
            return Ok(());
        };
        self.bytes.clear();
        frame.write(&mut self.bytes);
        let mut packet = Vec::with_capacity(self.bytes.len() + 48);
        packet.extend(interface.to_le_bytes());
        let stamp_ns = stamp_ps / NANOSECOND_PS;
        packet.extend(((stamp_ns >> 32) as u32).to_le_bytes());
        packet.extend((stamp_ns as u32).to_le_bytes());
        let length = (self.bytes.len() as u32).to_le_bytes();
        packet.extend(length);
        packet.extend(length);
        packet.extend(&self.bytes);
        pad(&mut packet);
        let flags: u32 = match direction {
            Direction::In => 1,
            Direction::Out => 2,
        };
        option(&mut packet, FLAGS, &flags.to_le_bytes());
        option(&mut packet, 0, &[]);
        self.number += 1;
        let packet = block(PACKET, packet);
        self.ahead.push(Reverse((stamp_ps, self.number, packet)));
        Ok(())
    }

    fn write_before(&mut self, now_ps: u64) -> io::Result<()> {
        while let Some(Reverse((stamp_ps, ..))) = self.ahead.peek()
            && *stamp_ps < now_ps
        {
            if let Some(Reverse((_, _, packet))) = self.ahead.pop() {
                self.file.write_all(&packet)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.write_before(u64::MAX)?;
        self.file.flush()
    }
}

/// A block of this type, with its length before and behind.
fn block(kind: u32, mut body: Vec<u8>) -> Vec<u8> {
    pad(&mut body);
    let length = (body.len() as u32 + 12).to_le_bytes();
    let mut block = Vec::with_capacity(body.len() + 12);
    block.extend(kind.to_le_bytes());
    block.extend(length);
    block.extend(body);
    block.extend(length);
    block
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}
