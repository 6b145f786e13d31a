//! Timelines as JSON of Chrome's trace events (the *Trace Event Format*): a process for each part, in which each frame is an asynchronous slice for
//! every wait and every service, and the frames that wait are a counter.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;

use super::super::frame::Frame;
use super::super::journey::{Leg, Place};
use super::super::ledger::Reason;
use super::{Sink, Track};
use crate::kernel::MICROSECOND_PS;

/// A timeline that goes on.
pub(super) struct Timeline {
    file: Sink,
    queues: BTreeMap<Place, Waiting>,
    is_first: bool,
}

/// The frames that wait in a part.
#[derive(Default)]
struct Waiting {
    count: u64,
    /// The times at which some of them end to.
    ends_ps: BinaryHeap<Reverse<u64>>,
}

/// A time in microseconds, with all digits.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(ps) = self;
        write!(f, "{}.{:06}", ps / MICROSECOND_PS, ps % MICROSECOND_PS)
    }
}

impl Timeline {
    pub(super) fn begin(mut file: Sink, tracks: &[Track]) -> io::Result<Self> {
        file.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut timeline = Self {
            file,
            queues: BTreeMap::new(),
            is_first: true,
        };
        for Track { place, name, .. } in tracks {
            let place = place.0;
            let name = text(name);
            timeline.event(&format!(
                "\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{place},\"args\":{{\"name\":{name}}}"
            ))?;
            timeline.event(&format!(
                "\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{place},\"args\":{{\"sort_index\":{place}}}"
            ))?;
        }
        Ok(timeline)
    }

    fn event(&mut self, fields: &str) -> io::Result<()> {
        let before = match std::mem::replace(&mut self.is_first, false) {
            true => "\n",
            false => ",\n",
        };
        write!(self.file, "{before}{{{fields}}}")
    }

    pub(super) fn stretch(
        &mut self,
        place: Place,
        leg: Leg,
        frame: &Frame,
        from_ps: u64,
        until_ps: u64,
    ) -> io::Result<()> {
        let name = leg.name();
        let id = frame.journey.number().unwrap_or(0);
        let bytes = frame.bytes();
        let common = |phase: char, at_ps: u64| {
            let (place, at) = (place.0, Micros(at_ps));
            format!(
                "\"ph\":\"{phase}\",\"cat\":\"frame\",\"name\":\"{name}\",\"id\":\"{id:#x}\",\"pid\":{place},\"tid\":0,\"ts\":{at}"
            )
        };
        let begin = common('b', from_ps);
        self.event(&format!("{begin},\"args\":{{\"bytes\":{bytes}}}"))?;
        self.event(&common('e', until_ps))
    }

    pub(super) fn dropped(
        &mut self,
        place: Place,
        reason: Reason,
        frame: &Frame,
        now_ps: u64,
    ) -> io::Result<()> {
        let (name, place, at) = (reason.name(), place.0, Micros(now_ps));
        let id = frame.journey.number().unwrap_or(0);
        self.event(&format!(
            "\"ph\":\"i\",\"s\":\"p\",\"name\":\"dropped: {name}\",\"pid\":{place},\"tid\":0,\"ts\":{at},\"args\":{{\"frame\":\"{id:#x}\"}}"
        ))
    }

    /// A frame waits. Times of a place never go back.
    pub(super) fn waits(&mut self, place: Place, now_ps: u64) -> io::Result<()> {
        self.count_until(place, now_ps)?;
        let waiting = self.queues.entry(place).or_default();
        waiting.count += 1;
        let count = waiting.count;
        self.counter(place, now_ps, count)
    }

    /// A frame that waits will do so until then.
    pub(super) fn goes(&mut self, place: Place, at_ps: u64) {
        let waiting = self.queues.entry(place).or_default();
        waiting.ends_ps.push(Reverse(at_ps));
    }

    fn counter(&mut self, place: Place, at_ps: u64, count: u64) -> io::Result<()> {
        let (place, at) = (place.0, Micros(at_ps));
        self.event(&format!(
            "\"ph\":\"C\",\"name\":\"waiting\",\"pid\":{place},\"ts\":{at},\"args\":{{\"frames\":{count}}}"
        ))
    }

    fn count_until(&mut self, place: Place, now_ps: u64) -> io::Result<()> {
        loop {
            let waiting = self.queues.entry(place).or_default();
            match waiting.ends_ps.peek() {
                Some(&Reverse(end_ps)) if end_ps <= now_ps => {
                    waiting.ends_ps.pop();
                    waiting.count = waiting.count.saturating_sub(1);
                    let count = waiting.count;
                    self.counter(place, end_ps, count)?;
                }
                _ => return Ok(()),
            }
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        let places: Vec<Place> = self.queues.keys().copied().collect();
        for place in places {
            self.count_until(place, u64::MAX)?;
        }
        self.file.write_all(b"\n]}\n")?;
        self.file.flush()
    }
}

/// A string of JSON.
fn text(name: &str) -> String {
    let mut out = String::from("\"");
    for it in name.chars() {
        match it {
            '"' | '\\' => out.extend(['\\', it]),
            it if u32::from(it) < 32 => out += &format!("\\u{:04x}", u32::from(it)),
            it => out.push(it),
        }
    }
    out + "\""
}
