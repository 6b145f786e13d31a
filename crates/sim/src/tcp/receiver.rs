//! The receiving half of an endpoint: reassembly, acknowledgements, the window.

mod window;

use crate::tcp::config::Config;
use crate::tcp::ranges::Ranges;
use crate::tcp::segment::{Flags, SACK_BLOCKS_MAX, Segment, Timestamps};
use crate::tcp::statistics::ReceiverStatistics;
use window::Window;

/// Blocks of which a receiver knows when they were last added to. RFC 2018 wants the latest ones; three fit.
const RECENT: usize = 8;
/// The least that counts as a full segment, whatever the peer sends: RFC 9293's default.
const FULL_SEGMENT_MIN: u32 = 536;

/// The receiving half of an endpoint. Times are picoseconds and never go back.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: Config,
    /// The position that comes next; 0 before the SYN.
    next: u64,
    /// Positions that arrived before one that they follow.
    early: Ranges,
    /// A position in each of the blocks that were added to last, the latest first.
    recent: [u64; RECENT],
    /// The position of the FIN, once it arrived.
    fin: Option<u64>,
    window: Window,
    due: Due,
    unacknowledged: u64,
    /// The largest payload that arrived: a full segment.
    largest: u32,
    quick_acks: u32,
    /// The application answers requests, so that acknowledgements travel on answers.
    interactive: bool,
    /// The timestamp to echo (TS.Recent), and the last acknowledgement sent (RFC 7323, section 4.3).
    echo: u32,
    last_acknowledgement: u64,
    statistics: ReceiverStatistics,
}

/// The next acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// At this time, unless more data comes.
    Delayed(u64),
    /// At once, on data or alone.
    Now,
    /// At once and alone, as data arrived that is not next (RFC 5681, section 4.2).
    Alone,
}

impl Receiver {
    /// A receiver that waits for a SYN.
    pub fn new(config: Config) -> Self {
        Self {
            next: 0,
            early: Ranges::default(),
            recent: [0; RECENT],
            fin: None,
            window: Window::new(&config),
            due: Due::Nothing,
            unacknowledged: 0,
            largest: 0,
            quick_acks: config.quick_acks,
            interactive: false,
            echo: 0,
            last_acknowledgement: 0,
            statistics: ReceiverStatistics::default(),
            config,
        }
    }

    /// True once the peer's SYN arrived.
    pub fn is_synchronised(&self) -> bool {
        self.next > 0
    }

    /// Takes the peer's SYN.
    pub fn synchronise(&mut self, now: u64, syn: &Segment) {
        self.next = 1;
        self.window.open(now, 1);
        self.echo = syn.timestamps().map_or(0, |timestamps| timestamps.value);
        self.due = Due::Now;
    }

    /// Takes a segment's payload and FIN.
    pub fn receive(&mut self, now: u64, segment: &Segment) {
        if !self.is_synchronised() {
            return;
        }
        self.window.settle(now, self.delivered_bytes());
        self.keep_timestamp(segment);
        if segment.is_syn() {
            self.due = Due::Now;
        } else if segment.sequence_len() == 0 {
            // A probe of the window is an old position; it must be answered (RFC 9293, section 3.8.6.1).
            if segment.sequence < self.next {
                self.due = Due::Now;
            }
        } else {
            self.statistics.segments += 1;
            self.largest = self.largest.max(segment.payload_len);
            self.place(now, segment);
            self.window.settle(now, self.delivered_bytes());
        }
    }

    fn keep_timestamp(&mut self, segment: &Segment) {
        if let Some(timestamps) = segment.timestamps() {
            let later = timestamps.value.wrapping_sub(self.echo) <= u32::MAX / 2;
            if later && segment.sequence <= self.last_acknowledgement {
                self.echo = timestamps.value;
            }
        }
    }

    fn place(&mut self, now: u64, segment: &Segment) {
        let (start, whole_end) = (segment.sequence, segment.end());
        let end = whole_end.min(self.window.end());
        if end < whole_end {
            let fin = u64::from(segment.is_fin());
            self.statistics.beyond_window_bytes += (whole_end - fin).saturating_sub(end.max(start));
            self.due = Due::Alone;
        } else if segment.is_fin() && self.fin.is_none() && whole_end > self.next {
            self.fin = Some(whole_end - 1);
        }
        if end <= start {
            return;
        }
        if end <= self.next {
            self.statistics.duplicate_segments += 1;
            self.statistics.duplicate_bytes += u64::from(segment.payload_len);
            self.due = Due::Alone;
        } else if start > self.next {
            self.place_early(start, end);
        } else {
            self.place_next(now, start, end);
        }
    }

    fn place_early(&mut self, start: u64, end: u64) {
        let added = self.early.insert(start, end);
        self.statistics.out_of_order_segments += 1;
        self.statistics.duplicate_segments += u64::from(added == 0);
        self.statistics.duplicate_bytes += end - start - added;
        self.remember_block(start);
        self.due = Due::Alone;
    }

    /// Puts the block around `position` at the front of the latest ones.
    fn remember_block(&mut self, position: u64) {
        let Some(block) = self.early.around(position) else {
            return;
        };
        let mut carried = position;
        for slot in &mut self.recent {
            let old = std::mem::replace(slot, carried);
            if (block.start..block.end).contains(&old) {
                return;
            }
            carried = old;
        }
    }

    fn place_next(&mut self, now: u64, start: u64, end: u64) {
        let old = self.next;
        let gap = !self.early.is_empty();
        let added = if gap {
            let added = self.early.insert(old, end);
            // What was inserted begins the lowest range.
            self.next = self.early.first().map_or(end, |first| first.end);
            self.early.remove_below(self.next);
            added
        } else {
            self.next = end;
            end - old
        };
        self.statistics.duplicate_bytes += end - start - added;
        self.unacknowledged += end - old;
        self.statistics.delivered_bytes = self.delivered_bytes();
        if gap || self.has_finished() || self.wants_acknowledgement() {
            if self.due != Due::Alone {
                self.due = Due::Now;
            }
        } else if self.due == Due::Nothing {
            self.due = Due::Delayed(now + self.config.delayed_ack_ps);
        }
    }

    /// True if data in order is acknowledged without waiting: every second full segment, and the first ones of a connection.
    fn wants_acknowledgement(&mut self) -> bool {
        if self.quick_acks > 0 && !self.interactive {
            self.quick_acks -= 1;
            return true;
        }
        let full = self
            .largest
            .max(FULL_SEGMENT_MIN.min(u32::from(self.config.mss)));
        let waiting = u64::from(self.config.ack_every.max(1) - 1) * u64::from(full);
        self.unacknowledged > waiting
    }

    /// Bytes that arrived in order, each counted once.
    pub fn delivered_bytes(&self) -> u64 {
        self.fin
            .map_or(self.next, |fin| self.next.min(fin))
            .saturating_sub(1)
    }

    /// True if the peer's stream has ended and all of it arrived.
    pub fn has_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Bytes that arrived in order and were not read.
    pub fn unread_bytes(&self) -> u64 {
        self.window.unread(self.delivered_bytes())
    }

    /// Reads up to `bytes`, with [`crate::tcp::Reading::OnCall`]; the number that were read. The window may open, which an acknowledgement then tells.
    pub fn read(&mut self, now: u64, bytes: u64) -> u64 {
        let read = self.window.read(now, bytes, self.delivered_bytes());
        self.tell_window();
        read
    }

    fn tell_window(&mut self) {
        let open = self.is_synchronised() && !self.has_finished();
        if open
            && self
                .window
                .is_worth_telling(self.next, self.delivered_bytes())
        {
            self.due = match self.due {
                Due::Alone => Due::Alone,
                _ => Due::Now,
            };
        }
    }

    /// The time at which [`Receiver::expire`] is to be called, if any.
    pub fn deadline(&self) -> Option<u64> {
        let delayed = match self.due {
            Due::Delayed(at) => Some(at),
            _ => None,
        };
        let opening = if self.is_synchronised() && !self.has_finished() {
            self.window.opening(self.next, self.delivered_bytes())
        } else {
            None
        };
        match (delayed, opening) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    /// Lets timers expire that are due: the delayed acknowledgement, and the window that the application's reading opened.
    pub fn expire(&mut self, now: u64) {
        self.window.settle(now, self.delivered_bytes());
        if let Due::Delayed(at) = self.due
            && at <= now
        {
            self.due = Due::Now;
        }
        self.tell_window();
    }

    /// True if an acknowledgement is to be sent now, on data or alone.
    pub fn is_acknowledgement_due(&self) -> bool {
        matches!(self.due, Due::Now | Due::Alone)
    }

    /// True if an acknowledgement is to be sent now and without data.
    pub fn is_acknowledgement_due_alone(&self) -> bool {
        self.due == Due::Alone
    }

    /// The number of SACK blocks that the next acknowledgement would have.
    pub fn block_count(&self) -> usize {
        let mut segment = Segment {
            acknowledgement: self.next,
            ..Segment::default()
        };
        self.add_blocks(&mut segment);
        segment.sack_blocks().count()
    }

    /// Puts the acknowledgement, the window, the echo (if the segment has timestamps) and, with `sack`, blocks on a segment, which counts as
    /// sent. `answer` is true for a segment with data.
    pub fn acknowledge(&mut self, now: u64, segment: &mut Segment, sack: bool, answer: bool) {
        self.window.settle(now, self.delivered_bytes());
        segment.flags = segment.flags.with(Flags::ACK);
        segment.acknowledgement = self.next;
        segment.window = self.window.advertise(self.next, self.delivered_bytes());
        if let Some(timestamps) = segment.timestamps() {
            segment.set_timestamps(Timestamps {
                echo: self.echo,
                ..timestamps
            });
        }
        if sack && !segment.is_syn() {
            self.add_blocks(segment);
        }
        self.interactive |= answer && self.unacknowledged > 0;
        self.unacknowledged = 0;
        self.due = Due::Nothing;
        self.last_acknowledgement = self.next;
        self.statistics.acks += 1;
    }

    /// The window of a SYN, which acknowledges nothing.
    pub fn first_window(&self) -> u32 {
        self.config.receive_buffer_bytes
    }

    /// The blocks that were added to last, the latest first (RFC 2018, section 4).
    fn add_blocks(&self, segment: &mut Segment) {
        if self.early.is_empty() {
            return;
        }
        let latest = self
            .recent
            .iter()
            .filter_map(|&position| self.early.around(position));
        for block in latest.chain(self.early.descending()) {
            let known = segment.sack_blocks().any(|(start, _)| start == block.start);
            if !known {
                segment.push_sack_block(block.start, block.end);
            }
            if segment.sack_blocks().count() == SACK_BLOCKS_MAX {
                return;
            }
        }
    }

    /// The counts so far.
    pub fn statistics(&self) -> &ReceiverStatistics {
        &self.statistics
    }
}

#[cfg(test)]
mod tests;
