//! Guests of QEMU on virtual time: unmodified, and in step with the simulation.
//!
//! A guest's time is its count of instructions, and it runs for a quantum at a time (`native/lockstep.c` says how QEMU is made to). Its frames leave and come at the ends of quanta
//! alone: one that leaves within a quantum is sent at its end, one that arrives within a quantum is received at its end. So times of frames are exact to a
//! quantum, which should be no longer than the latency of the guest's link; and as nothing in a guest depends on when the host runs it, the same guests and the same
//! file give the same run, frame by frame, up to the moment at which a guest switches itself off.
//!
//! The end of a quantum is known by a *beat*: a frame that goes into QEMU by one socket, is held there for the same time as the guest's frames are, and comes back by
//! another.
//!
//! A guest's speed is made up: an instruction takes a nanosecond, whatever it does. Caches, devices and other cores cost nothing. So times inside a guest are no measurement.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use dpb_core::Buf;
use dpb_core::port::PacketPort;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::kernel::{NANOSECOND_PS, Outside, OutsideError};

use super::frame::{Frame, NoFrame};
use super::message::Message;

/// The source of QEMU's plugin, in C: `cc -O2 -shared -fPIC -o lockstep.so lockstep.c`.
pub const PLUGIN_SOURCE: &str = include_str!("../../native/lockstep.c");
/// Pieces of a quantum, after each of which a guest is stopped.
pub const PIECES: u64 = 2;
/// Longest sleep while guests run.
const SLEEP_NS_MAX: i64 = 2_000_000;
/// Frames that are taken from a port at a time.
const BURST: usize = 64;
/// A broadcast of a type for experiments (IEEE 802, 0x88b5).
const BEAT: [u8; 60] = {
    let mut frame = [0; 60];
    let mut at = 0;
    while at < 12 {
        frame[at] = 0xff;
        at += 1;
    }
    frame[12] = 0x88;
    frame[13] = 0xb5;
    frame
};

/// The ways to one guest, all of which are open.
pub struct GuestWays {
    /// The plugin's socket.
    pub control: UnixStream,
    /// The guest's network.
    pub frames: Box<dyn PacketPort>,
    /// The way of beats into QEMU.
    pub beats_in: Box<dyn PacketPort>,
    /// The way of beats back.
    pub beats_out: Box<dyn PacketPort>,
    /// The length of a quantum, in picoseconds.
    pub quantum_ps: u64,
}

impl fmt::Debug for GuestWays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuestWays")
            .field(&self.frames.name())
            .finish()
    }
}

/// Counters of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestUsage {
    /// Frames that came from the guest.
    pub received: u64,
    /// Frames that went to the guest.
    pub sent: u64,
    /// Frames that were to go to the guest when it had ended, or that its network had no room for.
    pub lost: u64,
    /// Quanta that it has run.
    pub quanta: u64,
    /// A hash (FNV-1a, 64 bits) of all frames in both directions, each with its time: two runs with the same one did the same.
    pub trace: u64,
}

/// Guests that run in step with one kernel.
pub struct Lockstep {
    guests: Mutex<Vec<Guest>>,
    is_over: fn() -> bool,
}

impl fmt::Debug for Lockstep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lockstep")
            .field(&self.guests().len())
            .finish()
    }
}

/// The way out to one guest.
#[derive(Debug)]
pub struct LockstepEnd {
    lockstep: Arc<Lockstep>,
    number: usize,
}

/// The state of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// It has not yet been stopped for the first time.
    Begins,
    /// It is in a quantum.
    Runs,
    /// It is stopped behind the end of its last quantum.
    Stopped,
    /// QEMU has ended.
    Ended,
}

struct Guest {
    ways: GuestWays,
    run: Run,
    /// A message of which a part has come.
    said: Vec<u8>,
    /// The frames that the guest has sent at the end of a quantum that the plugin has not yet told of.
    held: Vec<Buf>,
    has_beaten: bool,
    found: VecDeque<(u64, Box<Frame>)>,
    leaving: VecDeque<Buf>,
    bytes: Vec<u8>,
    usage: GuestUsage,
}

/// Bytes of a message of the plugin's.
const SAID_BYTES: usize = 8;

impl Lockstep {
    /// Guests by their ways. A run ends with the error `interrupted` once `is_over` says so.
    ///
    /// # Errors
    /// The system's.
    pub fn new(guests: Vec<GuestWays>, is_over: fn() -> bool) -> io::Result<Arc<Self>> {
        let guests = guests.into_iter().map(|ways| {
            ways.control.set_nonblocking(true)?;
            Ok(Guest {
                ways,
                run: Run::Begins,
                said: Vec::new(),
                held: Vec::new(),
                has_beaten: false,
                found: VecDeque::new(),
                leaving: VecDeque::new(),
                bytes: Vec::new(),
                usage: GuestUsage {
                    trace: FNV_OFFSET,
                    ..GuestUsage::default()
                },
            })
        });
        let guests: io::Result<Vec<Guest>> = guests.collect();
        Ok(Arc::new(Self {
            guests: Mutex::new(guests?),
            is_over,
        }))
    }

    /// The way out to the guest of this number.
    pub fn end(self: &Arc<Self>, number: usize) -> LockstepEnd {
        LockstepEnd {
            lockstep: Arc::clone(self),
            number,
        }
    }

    /// The counters of a guest so far; `None` if there is no such guest.
    pub fn usage(&self, number: usize) -> Option<GuestUsage> {
        self.guests().get(number).map(|guest| guest.usage)
    }

    /// True if all guests have ended.
    pub fn has_ended(&self) -> bool {
        self.guests().iter().all(|guest| guest.run == Run::Ended)
    }

    fn guests(&self) -> MutexGuard<'_, Vec<Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// The time at which its last quantum ended.
    fn reached_ps(&self) -> u64 {
        self.usage.quanta * self.ways.quantum_ps
    }

    /// Before this time no frame comes.
    fn promise_ps(&self) -> u64 {
        match self.run {
            Run::Ended => u64::MAX,
            _ => self.reached_ps() + self.ways.quantum_ps,
        }
    }

    /// Hears what the plugin says, and answers it until a quantum has ended. The plugin says nothing before all that QEMU has sent was read.
    fn listen(&mut self) -> Result<(), OutsideError> {
        while matches!(self.run, Run::Begins | Run::Runs) {
            let mut room = [0; SAID_BYTES];
            let missing = SAID_BYTES - self.said.len();
            let read = self.ways.control.read(&mut room[..missing]);
            self.drain()?;
            match read {
                Ok(0) => return self.end(),
                Ok(bytes) => self.said.extend_from_slice(&room[..bytes]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset => return self.end(),
                    _ => return Err(self.failure("the plugin", &error)),
                },
            }
            let Ok(said) = <[u8; SAID_BYTES]>::try_from(self.said.as_slice()) else {
                continue;
            };
            self.said.clear();
            let instructions = u64::from_ne_bytes(said);
            if self.run == Run::Begins {
                self.run = Run::Stopped;
            } else if std::mem::take(&mut self.has_beaten) {
                self.usage.quanta += 1;
                self.run = Run::Stopped;
                self.check(instructions)?;
                self.take(self.reached_ps());
            } else {
                self.answer(b'g')?;
            }
        }
        Ok(())
    }

    /// QEMU has ended: what it had sent before comes at the end of the quantum.
    fn end(&mut self) -> Result<(), OutsideError> {
        self.take(self.reached_ps() + self.ways.quantum_ps);
        self.run = Run::Ended;
        Ok(())
    }

    /// Reads what the guest has sent, and the beat.
    fn drain(&mut self) -> Result<(), OutsideError> {
        let mut beats = Vec::new();
        loop {
            let (frames, beat) = (&mut self.ways.frames, &mut self.ways.beats_out);
            let came = frames.receive(&mut self.held, BURST).and_then(|frames| {
                let beats = beat.receive(&mut beats, BURST)?;
                Ok(frames + beats)
            });
            if came.map_err(|error| self.failure("frames", &error))? == 0 {
                break;
            }
        }
        self.has_beaten |= !beats.is_empty();
        Ok(())
    }

    /// Checks that the guest has run all the time: its instructions, of a nanosecond each, are no fewer than its time. A core that sleeps skips time, and perhaps
    /// the end of a quantum.
    fn check(&self, instructions: u64) -> Result<(), OutsideError> {
        match instructions.saturating_mul(NANOSECOND_PS) < self.reached_ps() {
            true => Err(OutsideError(format!(
                "{}: the guest slept: it ran {instructions} instructions in {} quanta; its kernel needs the word idle=poll",
                self.ways.frames.name(),
                self.usage.quanta
            ))),
            false => Ok(()),
        }
    }

    /// Takes what the guest has sent in the quantum that has ended.
    fn take(&mut self, due_ps: u64) {
        for packet in std::mem::take(&mut self.held) {
            match Frame::from_bytes(&packet, due_ps) {
                Ok(frame) => {
                    self.usage.received += 1;
                    self.trace(due_ps, &packet);
                    self.found.push_back((due_ps, frame));
                }
                Err(NoFrame { .. }) => self.usage.lost += 1,
            }
        }
    }

    fn send(&mut self, now_ps: u64, frame: &Frame) -> Result<(), OutsideError> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        frame.write(&mut bytes);
        self.trace(now_ps, &bytes);
        let packet = match self.run {
            Run::Ended => None,
            _ => self.ways.frames.alloc(bytes.len()).ok(),
        };
        self.bytes = bytes;
        let Some(mut packet) = packet else {
            self.usage.lost += 1;
            return Ok(());
        };
        packet.copy_from_slice(&self.bytes);
        self.leaving.push_back(packet);
        loop {
            let sent = self.ways.frames.send(&mut self.leaving);
            if sent.map_err(|error| self.failure("frames", &error))? > 0 {
                self.usage.sent += 1;
                return Ok(());
            }
            // How soon QEMU reads must not decide what is lost.
            if self.leaving.is_empty() || self.is_gone()? {
                self.leaving.clear();
                self.usage.lost += 1;
                return Ok(());
            }
            thread::yield_now();
        }
    }

    /// True if QEMU has ended, which the plugin's side of the socket tells.
    fn is_gone(&self) -> Result<bool, OutsideError> {
        let mut files = [PollFd::new(&self.ways.control, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match poll(&mut files, Some(&now)) {
            Ok(_) => Ok(files[0].revents().contains(PollFlags::HUP)),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(self.failure("the plugin", &error.into())),
        }
    }

    /// Lets the guest run to the end of the next quantum, with all that it will receive there.
    fn go_on(&mut self) -> Result<(), OutsideError> {
        let beat = self.ways.beats_in.alloc(BEAT.len());
        let mut beat = beat.map_err(|why| OutsideError(why.to_string()))?;
        beat.copy_from_slice(&BEAT);
        let mut beats = VecDeque::from([beat]);
        let mut none = VecDeque::new();
        // QEMU's main thread reads whether or not the guest runs.
        while !self.is_gone()? {
            let sent = self.ways.beats_in.send(&mut beats);
            let sent = sent.and_then(|_| self.ways.frames.send(&mut none));
            sent.map_err(|error| self.failure("frames", &error))?;
            let waiting = |port: &mut Box<dyn PacketPort>| port.stats().in_flight();
            if beats.is_empty()
                && waiting(&mut self.ways.frames) + waiting(&mut self.ways.beats_in) == 0
            {
                break;
            }
            thread::yield_now();
        }
        self.run = Run::Runs;
        self.answer(b's')
    }

    fn answer(&mut self, answer: u8) -> Result<(), OutsideError> {
        match self.ways.control.write(&[answer]) {
            Ok(_) => Ok(()),
            // It has ended, which the next look finds.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(self.failure("the plugin", &error)),
        }
    }

    fn trace(&mut self, time_ps: u64, bytes: &[u8]) {
        let time = time_ps.to_le_bytes();
        let all = time.iter().chain(bytes);
        self.usage.trace = all.fold(self.usage.trace, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
        });
    }

    fn failure(&self, what: &str, error: &io::Error) -> OutsideError {
        OutsideError(format!("{}, {what}: {error}", self.ways.frames.name()))
    }
}

/// The parameters of FNV-1a with 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

impl LockstepEnd {
    fn with<T>(&self, act: impl FnOnce(&mut Guest) -> T) -> T {
        act(&mut self.lockstep.guests()[self.number])
    }
}

impl Outside<Message> for LockstepEnd {
    fn send(&mut self, now_ps: u64, message: Message) -> Result<Option<Message>, OutsideError> {
        let Message::Frame(frame) = message else {
            return Err(OutsideError("a guest takes frames alone".to_owned()));
        };
        self.with(|guest| guest.send(now_ps, &frame))?;
        Ok(None)
    }

    fn receive(&mut self) -> Result<Option<(u64, Message)>, OutsideError> {
        self.with(|guest| {
            guest.listen()?;
            let found = guest.found.pop_front();
            Ok(found.map(|(due_ps, frame)| (due_ps, Message::Frame(frame))))
        })
    }

    fn promise_ps(&self) -> u64 {
        self.with(|guest| guest.promise_ps())
    }

    fn reach(&mut self, now_ps: u64) -> Result<bool, OutsideError> {
        self.with(|guest| match guest.run {
            Run::Stopped if now_ps >= guest.promise_ps() => guest.go_on(),
            _ => Ok(()),
        })?;
        Ok(true)
    }

    fn wait(&mut self, _next_ps: u64) -> Result<(), OutsideError> {
        if (self.lockstep.is_over)() {
            return Err(OutsideError("interrupted".to_owned()));
        }
        let guests = self.lockstep.guests();
        let running = guests
            .iter()
            .filter(|guest| matches!(guest.run, Run::Begins | Run::Runs));
        let ways = running.flat_map(|guest| {
            let control = Some(guest.ways.control.as_fd());
            [
                control,
                guest.ways.frames.file(),
                guest.ways.beats_out.file(),
            ]
        });
        let mut files: Vec<PollFd<'_>> = ways
            .flatten()
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: SLEEP_NS_MAX as _,
        };
        match poll(&mut files, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(OutsideError(format!("a look at the guests: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests;
