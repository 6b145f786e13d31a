//! A transport without a device: both ends in one process, the ring in plain memory, faults at will. It holds its users to the rules:
//! a piece written where the last one was not given back, or read before it is there, is a panic.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::bulk::{Acceptor, BodyReader, BodyWriter, Broken, Connected, Connector, Offer, Ring};

/// What goes wrong, at which piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The writer's end breaks.
    Breaks(u64),
    /// The piece never arrives, and the reader's end notices after a while.
    Lost(u64),
    /// The piece never arrives, and the writer's end notices after a while.
    Unanswered(u64),
    /// The next one comes in its place.
    Skipped(u64),
    /// A byte is missing.
    Short(u64),
}

/// The time that an end takes to notice what is wrong.
const NOTICES: Duration = Duration::from_millis(100);

/// One ring, as both ends have it.
#[derive(Debug)]
struct Shared {
    ring: Ring,
    memory: Vec<u8>,
    /// Pieces that were written and not given back: number, bytes, when they are there.
    written: Vec<(u64, usize, Instant)>,
    next: u64,
    fault: Fault,
    delay: Duration,
    /// The least time between two pieces.
    pace: Duration,
    /// When the piece that was written last is there.
    last: Instant,
    broke: Option<Instant>,
    /// The reader's file: a timer, because a piece is there only a while after it was written.
    timer: Arc<OwnedFd>,
    /// True if the timer is to be set for the next piece that is written.
    is_armed: bool,
}

impl Shared {
    /// Makes the reader's file readable after `time`; never, if that is zero.
    fn tell_after(&self, time: Duration) {
        let time = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(time).expect("hours at most"),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time).expect("a timer");
    }

    fn place(&self, number: u64) -> usize {
        (number % u64::from(self.ring.pieces)) as usize * self.ring.piece_bytes
    }

    fn noticed(&self, by_reader: bool) -> Result<(), Broken> {
        let mine = matches!(
            (self.fault, by_reader),
            (Fault::Lost(_), true) | (Fault::Unanswered(_), false)
        );
        match self.broke {
            Some(broke) if mine && broke.elapsed() > NOTICES => {
                Err(Broken("the stand-in went down".into()))
            }
            _ => Ok(()),
        }
    }
}

type Held = Arc<Mutex<Shared>>;

fn lock(held: &Held) -> MutexGuard<'_, Shared> {
    held.lock().expect("no holder panics")
}

/// The writer's end.
#[derive(Debug)]
pub struct Out {
    held: Held,
    written: Arc<AtomicU64>,
}

/// The reader's end.
#[derive(Debug)]
pub struct In {
    held: Held,
    next: u64,
    /// As [`Shared::timer`]. `None` if no file tells of pieces.
    timer: Option<Arc<OwnedFd>>,
}

impl BodyWriter for Out {
    fn ring(&self) -> Ring {
        lock(&self.held).ring
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), Broken> {
        let mut shared = lock(&self.held);
        let number = shared.next;
        let due = shared.written.len();
        assert!(
            due < shared.ring.pieces as usize,
            "no room for piece {number}"
        );
        let len: usize = parts.iter().map(|part| part.len()).sum();
        assert!(len > 0 && len <= shared.ring.piece_bytes);
        let now = Instant::now();
        let there = (now + shared.delay).max(shared.last + shared.pace);
        shared.last = there;
        let mut at = shared.place(number);
        for part in parts {
            shared.memory[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        shared.next += 1;
        self.written.fetch_add(len as u64, Ordering::Relaxed);
        let mut written = (number, len, there);
        match shared.fault {
            Fault::Breaks(which) if which == number => {
                return Err(Broken("the stand-in broke".into()));
            }
            Fault::Lost(which) | Fault::Unanswered(which) if number >= which => {
                shared.broke.get_or_insert_with(Instant::now);
                written.2 = there + Duration::from_secs(3600);
            }
            Fault::Skipped(which) if which == number => written.0 += 1,
            Fault::Short(which) if which == number => written.1 -= 1,
            _ => {}
        }
        if shared.is_armed {
            shared.is_armed = false;
            shared.tell_after((written.2 - now).max(Duration::from_nanos(1)));
        }
        shared.written.push(written);
        Ok(())
    }

    fn in_flight(&mut self) -> Result<u32, Broken> {
        let shared = lock(&self.held);
        shared.noticed(false)?;
        let now = Instant::now();
        let in_flight = shared.written.iter().filter(|written| written.2 > now);
        Ok(in_flight.count() as u32)
    }
}

impl BodyReader for In {
    fn ring(&self) -> Ring {
        lock(&self.held).ring
    }

    fn arrived(&mut self) -> Result<Option<usize>, Broken> {
        let shared = lock(&self.held);
        match shared.written.first() {
            Some(&(number, len, there)) if there <= Instant::now() => match number == self.next {
                true => Ok(Some(len)),
                false => Err(Broken(format!("piece {number} came, not {}", self.next))),
            },
            _ => Ok(None),
        }
    }

    fn copy(&self, at: usize, into: &mut [u8]) {
        let shared = lock(&self.held);
        let (number, len, there) = shared.written[0];
        assert!(there <= Instant::now() && at + into.len() <= len);
        let from = shared.place(number) + at;
        into.copy_from_slice(&shared.memory[from..from + into.len()]);
    }

    fn release(&mut self) -> Result<(), Broken> {
        let mut shared = lock(&self.held);
        let (number, ..) = shared.written.remove(0);
        // Whoever looks at it now sees that.
        let (from, len) = (shared.place(number), shared.ring.piece_bytes);
        shared.memory[from..from + len].fill(0xee);
        self.next += 1;
        Ok(())
    }

    fn check(&mut self) -> Result<(), Broken> {
        lock(&self.held).noticed(true)
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.timer.as_ref().map(|timer| timer.as_fd())
    }

    fn arm(&mut self) -> Result<(), Broken> {
        let mut shared = lock(&self.held);
        let now = Instant::now();
        // Strict: it never tells of a piece that is there by now.
        let mut times = shared.written.iter().map(|written| written.2 - now);
        let next = times.find(|time| !time.is_zero());
        shared.is_armed = next.is_none();
        shared.tell_after(next.unwrap_or_default());
        Ok(())
    }
}

/// Both ends of a new ring.
pub fn ends(ring: Ring, fault: Fault, delay: Duration) -> (Out, In) {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags).expect("a timer");
    let timer = Arc::new(timer);
    let held = Arc::new(Mutex::new(Shared {
        memory: vec![0xee; ring.pieces as usize * ring.piece_bytes],
        ring,
        written: Vec::with_capacity(ring.pieces as usize),
        next: 0,
        fault,
        delay,
        pace: Duration::ZERO,
        last: Instant::now(),
        broke: None,
        timer: timer.clone(),
        is_armed: false,
    }));
    let reader = In {
        held: held.clone(),
        next: 0,
        timer: Some(timer),
    };
    let written = Arc::default();
    (Out { held, written }, reader)
}

/// Client and agent, for one to find the other's ring; the ring of each connection has the next of `faults`, the last one over
/// and over.
#[derive(Debug)]
pub struct Device {
    ring: Ring,
    /// The time that a piece takes.
    delay: Duration,
    /// The least time between two pieces of rings that are made from now on.
    pub pace: Mutex<Duration>,
    faults: Mutex<Vec<Fault>>,
    offered: Mutex<HashMap<u64, Out>>,
    next: AtomicU64,
    /// Bytes that were written to its rings.
    written: Arc<AtomicU64>,
    /// What the client's side refuses with, once it has the answer.
    pub refuses: Mutex<Option<String>>,
    /// True if a file tells of pieces, in rings that are made from now on.
    pub has_file: AtomicBool,
    this: Weak<Self>,
}

impl Device {
    /// A device whose rings are such, and whose pieces take a while.
    pub fn new(ring: Ring, faults: &[Fault]) -> Arc<Self> {
        Self::with_delay(ring, faults, Duration::from_micros(200))
    }

    /// The same whose pieces take so long.
    pub fn with_delay(ring: Ring, faults: &[Fault], delay: Duration) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            ring,
            delay,
            pace: Mutex::default(),
            faults: Mutex::new(faults.to_vec()),
            offered: Mutex::default(),
            next: AtomicU64::new(0),
            written: Arc::default(),
            refuses: Mutex::default(),
            has_file: true.into(),
            this: this.clone(),
        })
    }

    /// Bytes that were written to its rings so far.
    pub fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

struct Made {
    reader: In,
    device: Arc<Device>,
}

impl Connector for Device {
    fn offer(&self) -> Result<(Vec<u8>, Box<dyn Offer>), String> {
        let mut faults = self.faults.lock().expect("no holder panics");
        let fault = match faults.len() {
            1 => faults[0],
            _ => faults.remove(0),
        };
        let (mut writer, mut reader) = ends(self.ring, fault, self.delay);
        if !self.has_file.load(Ordering::Relaxed) {
            reader.timer = None;
        }
        writer.written = Arc::clone(&self.written);
        lock(&writer.held).pace = *self.pace.lock().expect("no holder panics");
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut offered = self.offered.lock().expect("no holder panics");
        offered.insert(number, writer);
        let device = self.this.upgrade().expect("it is asked");
        Ok((
            number.to_le_bytes().to_vec(),
            Box::new(Made { reader, device }),
        ))
    }
}

impl Offer for Made {
    fn open(self: Box<Self>, answer: &[u8]) -> Result<Connected, String> {
        assert_eq!(answer, b"here");
        if let Some(reason) = &*self.device.refuses.lock().expect("no holder panics") {
            return Err(reason.clone());
        }
        Ok(Connected {
            reader: Box::new(self.reader),
            name: "memory".into(),
            emulated_by: Some("a stand-in".into()),
        })
    }
}

impl Acceptor for Device {
    fn accept(&self, offer: &[u8]) -> Result<(Vec<u8>, Box<dyn BodyWriter>), String> {
        let number = <[u8; 8]>::try_from(offer).map_err(|_| "no offer of ours".to_owned())?;
        let mut offered = self.offered.lock().expect("no holder panics");
        let writer = offered.remove(&u64::from_le_bytes(number));
        let writer = writer.ok_or("no such ring")?;
        Ok((b"here".to_vec(), Box::new(writer)))
    }
}
