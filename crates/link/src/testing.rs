//! A transport without a device: both ends in one process, the ring in plain memory, faults at will. It holds its users to the rules:
//! a piece written where the last one was not given back, or read before it is there, is a panic.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use crate::bulk::{Acceptor, BodyReader, BodyWriter, Broken, Connected, Connector, Offer, Ring};

/// What goes wrong, at which piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The agent's end breaks.
    Breaks(u64),
    /// The piece never arrives, and the client's end notices after a while.
    Lost(u64),
    /// The piece never arrives, and the agent's end notices after a while.
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
    broke: Option<Instant>,
}

impl Shared {
    fn place(&self, number: u64) -> usize {
        (number % u64::from(self.ring.pieces)) as usize * self.ring.piece_bytes
    }

    fn noticed(&self, by_client: bool) -> Result<(), Broken> {
        let mine = matches!(
            (self.fault, by_client),
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

/// The agent's end.
#[derive(Debug)]
pub struct Out {
    held: Held,
    written: Arc<AtomicU64>,
}

/// The client's end.
#[derive(Debug)]
pub struct In {
    held: Held,
    next: u64,
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
        let bytes = parts.concat();
        assert!(!bytes.is_empty() && bytes.len() <= shared.ring.piece_bytes);
        let there = Instant::now() + shared.delay;
        let at = shared.place(number);
        shared.memory[at..at + bytes.len()].copy_from_slice(&bytes);
        shared.next += 1;
        self.written
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut written = (number, bytes.len(), there);
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
}

/// Both ends of a new ring.
pub fn ends(ring: Ring, fault: Fault, delay: Duration) -> (Out, In) {
    let held = Arc::new(Mutex::new(Shared {
        memory: vec![0xee; ring.pieces as usize * ring.piece_bytes],
        ring,
        written: Vec::new(),
        next: 0,
        fault,
        delay,
        broke: None,
    }));
    let reader = In {
        held: held.clone(),
        next: 0,
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
    faults: Mutex<Vec<Fault>>,
    offered: Mutex<HashMap<u64, Out>>,
    next: AtomicU64,
    /// Bytes that were written to its rings.
    written: Arc<AtomicU64>,
    /// What the client's side refuses with, once it has the answer.
    pub refuses: Mutex<Option<String>>,
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
            faults: Mutex::new(faults.to_vec()),
            offered: Mutex::default(),
            next: AtomicU64::new(0),
            written: Arc::default(),
            refuses: Mutex::default(),
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
        let (mut writer, reader) = ends(self.ring, fault, self.delay);
        writer.written = Arc::clone(&self.written);
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
