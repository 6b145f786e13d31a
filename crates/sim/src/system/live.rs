//! Ways between a kernel and real networks: virtual time follows a clock.
//!
//! A frame arrives at the clock's time at which it is found, and one that leaves is handed over as soon as the clock has passed its modelled time. Between the two the
//! kernel's own heap of events holds it. So a real host sees each modelled delay, and as much more as the release is late: how late is measured,
//! and what is shorter than that cannot be seen from outside.
//!
//! All ports of a system share one [`Live`]: one look finds what has come at any of them, and one sleep ends when a frame comes or the next event is due.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpb_core::port::{PacketPort, PortStats};
use dpb_core::{Buf, Clock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::kernel::{NANOSECOND_PS, Outside, OutsideError};

use super::frame::{Frame, NoFrame};
use super::lateness::Lateness;
use super::message::Message;

/// Least time between two looks that do not sleep: a look is a call of the system.
const LOOK_NS: u64 = 2_000;
/// Sleeps end so much too late, as the system bundles timers. What is due sooner is not slept for.
const SLEEP_NS_MIN: u64 = 70_000;
/// Longest sleep: so soon a port sends on what it had no room for, and a run notices that it is to end.
const SLEEP_NS_MAX: u64 = 2_000_000;
/// Longest sleep where a port wakes nobody up.
const BLIND_NS_MAX: u64 = 100_000;
/// Frames that are taken from a port at a time.
const BURST: usize = 32;

/// Counters of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveUsage {
    /// Frames that came from the port.
    pub received: u64,
    /// Frames that came with fewer bytes than Ethernet's header has. They are not among `received`.
    pub too_short: u64,
    /// Frames that were handed over to the port.
    pub sent: u64,
    /// Frames that the port had no room for, or nobody to give to.
    pub no_room: u64,
    /// Frames that were longer than the port takes.
    pub too_long: u64,
    /// The time by which each frame was handed over later than modelled.
    pub late: Lateness,
}

struct Port {
    port: Box<dyn PacketPort>,
    /// True if a look has found something to read.
    is_ready: bool,
    found: VecDeque<Buf>,
    taken: Vec<Buf>,
    leaving: VecDeque<Buf>,
    bytes: Vec<u8>,
    usage: LiveUsage,
}

struct State {
    start_ns: Option<u64>,
    /// The time at which the last look ended.
    looked_ns: u64,
    ports: Vec<Port>,
    /// Times between the end of a look and the next one: so long a frame may have lain unseen.
    gaps: Lateness,
}

/// The ports of a system whose virtual time follows a clock.
pub struct Live {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = (self.state().ports.iter())
            .map(|it| it.port.name().to_owned())
            .collect();
        f.debug_tuple("Live").field(&names).finish()
    }
}

/// The way out to one port. In a kernel, all of a [`Live`]'s are on one thread.
#[derive(Debug)]
pub struct LiveEnd {
    live: Arc<Live>,
    number: usize,
}

impl Live {
    /// Ports by which a system's frames come and go, as the clock has it. Virtual time begins when the kernel first runs.
    pub fn new(clock: Arc<dyn Clock>, ports: Vec<Box<dyn PacketPort>>) -> Arc<Self> {
        let ports = ports.into_iter().map(|port| Port {
            port,
            is_ready: false,
            found: VecDeque::new(),
            taken: Vec::new(),
            leaving: VecDeque::new(),
            bytes: Vec::new(),
            usage: LiveUsage::default(),
        });
        let state = State {
            start_ns: None,
            looked_ns: 0,
            ports: ports.collect(),
            gaps: Lateness::default(),
        };
        Arc::new(Self {
            clock,
            state: Mutex::new(state),
        })
    }

    /// The way out to the port of this number.
    pub fn end(self: &Arc<Self>, number: usize) -> LiveEnd {
        LiveEnd {
            live: Arc::clone(self),
            number,
        }
    }

    /// The counters of a port so far, and the port's own; `None` if there is no such port.
    pub fn usage(&self, number: usize) -> Option<(LiveUsage, PortStats)> {
        let mut state = self.state();
        let port = state.ports.get_mut(number)?;
        Some((port.usage.clone(), port.port.stats()))
    }

    /// Times between two looks at the ports, sleeps left out: a frame that came may have lain unseen for as long.
    pub fn gaps(&self) -> Lateness {
        self.state().gaps.clone()
    }

    /// The clock's time since virtual time began, in picoseconds.
    pub fn elapsed_ps(&self) -> u64 {
        let start_ns = self.state().start_ns;
        self.since(start_ns)
    }

    fn since(&self, start_ns: Option<u64>) -> u64 {
        let start_ns = start_ns.unwrap_or(u64::MAX);
        self.clock.now_ns().saturating_sub(start_ns) * NANOSECOND_PS
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Looks which ports have something, and sleeps for at most so long if none has.
    fn look(&mut self, clock: &dyn Clock, sleep_ns: u64) -> Result<(), OutsideError> {
        let now_ns = clock.now_ns();
        if sleep_ns == 0 && now_ns.saturating_sub(self.looked_ns) < LOOK_NS {
            return Ok(());
        }
        if self.looked_ns > 0 {
            self.gaps.add(now_ns.saturating_sub(self.looked_ns));
        }
        let mut numbers = Vec::with_capacity(self.ports.len());
        let mut files = Vec::with_capacity(self.ports.len());
        let mut sleep_ns = sleep_ns;
        for (number, port) in self.ports.iter().enumerate() {
            match port.port.file() {
                Some(file) => {
                    numbers.push(number);
                    files.push(PollFd::from_borrowed_fd(file, PollFlags::IN));
                }
                None => sleep_ns = sleep_ns.min(BLIND_NS_MAX),
            }
        }
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: sleep_ns.min(SLEEP_NS_MAX) as _,
        };
        match poll(&mut files, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(OutsideError(format!("a look at the ports: {error}"))),
        }
        let ready: Vec<bool> = files.iter().map(|it| !it.revents().is_empty()).collect();
        drop(files);
        for port in &mut self.ports {
            port.is_ready |= port.port.file().is_none();
            // No frame, but the occasion to go on with those that it has.
            let sent = port.port.send(&mut port.leaving);
            sent.map_err(|error| port.failure(&error))?;
        }
        for (number, is_ready) in numbers.into_iter().zip(ready) {
            self.ports[number].is_ready |= is_ready;
        }
        self.looked_ns = clock.now_ns().max(1);
        Ok(())
    }
}

impl Port {
    /// The next frame that has come.
    fn take(&mut self, due_ps: u64) -> Result<Option<Box<Frame>>, OutsideError> {
        loop {
            while let Some(packet) = self.found.pop_front() {
                match Frame::from_bytes(&packet, due_ps) {
                    Ok(frame) => {
                        self.usage.received += 1;
                        return Ok(Some(frame));
                    }
                    Err(NoFrame { .. }) => self.usage.too_short += 1,
                }
            }
            if !self.is_ready {
                return Ok(None);
            }
            let came = self.port.receive(&mut self.taken, BURST);
            let came = came.map_err(|error| self.failure(&error))?;
            // What is left is found by the next look.
            self.is_ready = came == BURST;
            self.found.extend(self.taken.drain(..));
        }
    }

    fn send(&mut self, frame: &Frame) -> Result<(), OutsideError> {
        self.bytes.clear();
        frame.write(&mut self.bytes);
        if self.bytes.len() > self.port.packet_bytes_max() {
            self.usage.too_long += 1;
            return Ok(());
        }
        let Ok(mut packet) = self.port.alloc(self.bytes.len()) else {
            self.usage.no_room += 1;
            return Ok(());
        };
        packet.copy_from_slice(&self.bytes);
        self.leaving.push_back(packet);
        let sent = self.port.send(&mut self.leaving);
        self.leaving.clear();
        match sent.map_err(|error| self.failure(&error))? {
            0 => self.usage.no_room += 1,
            _ => self.usage.sent += 1,
        }
        Ok(())
    }

    fn failure(&self, error: &io::Error) -> OutsideError {
        OutsideError(format!("port {}: {error}", self.port.name()))
    }
}

impl Outside<Message> for LiveEnd {
    fn send(&mut self, now_ps: u64, message: Message) -> Result<Option<Message>, OutsideError> {
        let Message::Frame(frame) = message else {
            return Err(OutsideError("a real host takes frames alone".to_owned()));
        };
        let mut state = self.live.state();
        let late_ps = self.live.since(state.start_ns).saturating_sub(now_ps);
        let port = &mut state.ports[self.number];
        port.usage.late.add(late_ps / NANOSECOND_PS);
        port.send(&frame).map(|()| None)
    }

    fn receive(&mut self) -> Result<Option<(u64, Message)>, OutsideError> {
        let mut state = self.live.state();
        if state.start_ns.is_none() {
            state.start_ns = Some(self.live.clock.now_ns());
        }
        state.look(self.live.clock.as_ref(), 0)?;
        let due_ps = self.live.since(state.start_ns);
        let taken = state.ports[self.number].take(due_ps)?;
        Ok(taken.map(|frame| (due_ps, Message::Frame(frame))))
    }

    fn promise_ps(&self) -> u64 {
        self.live.elapsed_ps()
    }

    fn reach(&mut self, _now_ps: u64) -> Result<bool, OutsideError> {
        Ok(true)
    }

    fn wait(&mut self, next_ps: u64) -> Result<(), OutsideError> {
        let mut state = self.live.state();
        let left_ps = next_ps.saturating_sub(self.live.since(state.start_ns));
        match left_ps / NANOSECOND_PS {
            ..SLEEP_NS_MIN => std::thread::yield_now(),
            // The rest is waited for awake.
            left_ns => state.look(self.live.clock.as_ref(), left_ns - SLEEP_NS_MIN + 1)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
