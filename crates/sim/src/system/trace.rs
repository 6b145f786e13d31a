//! Traces of a run, written while it goes on: frames as a capture file has them, and what each part did to them as a timeline.
//!
//! Both are streams: what is kept in memory is the frames whose time stamps lie ahead of virtual time, and the ends of waits that are known already.

mod pcapng;
mod timeline;

use std::io::{self, Write};

use super::frame::Frame;
use super::journey::{Leg, Place};
use super::ledger::Reason;

use pcapng::Capture;
use timeline::Timeline;

/// The direction in which a frame passes the end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Into the part.
    In,
    /// Out of it.
    Out,
}

/// A place that traces know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its number.
    pub place: Place,
    /// Its name.
    pub name: String,
    /// The name of the capture's interface, if it is the end of a wire whose frames are captured.
    pub interface: Option<String>,
}

/// The traces of a run.
#[allow(missing_debug_implementations)] // files are anything
#[derive(Default)]
pub struct Trace {
    capture: Option<Capture>,
    timeline: Option<Timeline>,
    failed: Option<io::Error>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (capture, timeline) = (self.capture.is_some(), self.timeline.is_some());
        write!(f, "Trace {{ capture: {capture}, timeline: {timeline} }}")
    }
}

/// A file that a trace goes to.
pub type Sink = Box<dyn Write + Send>;

impl Trace {
    /// Captures the frames of all tracks that have an interface, as pcapng with times in nanoseconds.
    ///
    /// # Errors
    /// An error of the file.
    pub fn capture_to(&mut self, file: Sink, tracks: &[Track]) -> io::Result<()> {
        self.capture = Some(Capture::begin(file, tracks)?);
        Ok(())
    }

    /// Writes a timeline of all tracks, as JSON of Chrome's trace events, which Perfetto opens.
    ///
    /// # Errors
    /// An error of the file.
    pub fn timeline_to(&mut self, file: Sink, tracks: &[Track]) -> io::Result<()> {
        self.timeline = Some(Timeline::begin(file, tracks)?);
        Ok(())
    }

    fn attempt(&mut self, result: io::Result<()>) {
        if let Err(wrong) = result {
            self.failed.get_or_insert(wrong);
        }
    }

    pub(super) fn capture(
        &mut self,
        place: Place,
        direction: Direction,
        stamp_ps: u64,
        frame: &Frame,
    ) {
        if let Some(capture) = &mut self.capture {
            let written = capture.frame(place, direction, stamp_ps, frame);
            self.attempt(written);
        }
    }

    pub(super) fn stretch(
        &mut self,
        place: Place,
        leg: Leg,
        frame: &Frame,
        from_ps: u64,
        until_ps: u64,
    ) {
        if let Some(timeline) = &mut self.timeline {
            let written = timeline.stretch(place, leg, frame, from_ps, until_ps);
            self.attempt(written);
        }
    }

    pub(super) fn waits(&mut self, place: Place, now_ps: u64) {
        if let Some(timeline) = &mut self.timeline {
            let written = timeline.waits(place, now_ps);
            self.attempt(written);
        }
    }

    pub(super) fn goes(&mut self, place: Place, at_ps: u64) {
        if let Some(timeline) = &mut self.timeline {
            timeline.goes(place, at_ps);
        }
    }

    pub(super) fn dropped(&mut self, place: Place, reason: Reason, frame: &Frame, now_ps: u64) {
        if let Some(timeline) = &mut self.timeline {
            let written = timeline.dropped(place, reason, frame, now_ps);
            self.attempt(written);
        }
    }

    /// Writes what is left. The run has ended.
    ///
    /// # Errors
    /// The first that a file gave, also while the run went on.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(wrong) = self.failed.take() {
            return Err(wrong);
        }
        if let Some(capture) = self.capture.take() {
            capture.finish()?;
        }
        if let Some(timeline) = self.timeline.take() {
            timeline.finish()?;
        }
        Ok(())
    }
}
