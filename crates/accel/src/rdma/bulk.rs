//! Pieces of large bodies, written into a ring in the peer's memory.
//!
//! The receiving side registers a ring and [offers](offer) it; the sending side [accepts](accept) the offer and says where it is
//! itself; whoever calls carries these words between both. Then [`Sender::write`] puts a piece into the ring's next place, by an
//! RDMA write that leaves the piece's number in a completion of the receiver's. What has not completed has not arrived, whatever
//! else is known of it.
//!
//! ```text
//! Sender: parts ─ copy ─▶ staging ─ RDMA write, number ─▶ ring ─ copy ─▶ whoever asked :Receiver
//! ```
//!
//! The peer has the ring's key and may write to it at any time. So nothing is ever looked at in the ring: bytes are copied out,
//! atomically, and what was copied stays as it is. The sender's own memory is out of its peer's reach.
//!
//! Flow control is the caller's: a sender must not be told to write more than [`Sender::pieces`] ahead of what its peer has
//! released. What a peer says of its endpoint is checked; a sender's memory is [`RING_BYTES`] whatever its peer asks for.

mod endpoint;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use dpb_core::patience::Silence;
use dpb_core::{Clock, Unsupported};

use self::endpoint::Endpoint;
use super::bench;
use super::port::{Address, Device, Problem, first_packet_number, is_v4};
use super::raw::requests::{Kind, Request, RequestQueue};
use super::raw::{
    Access, Capacity, Completion, CompletionQueue, ProtectionDomain, QueuePair, Refused,
    RemotePair, Retry, Route, VerbsError, Window,
};

/// Pieces of a ring.
pub const PIECES: u32 = 16;
/// Bytes of a piece.
pub const PIECE_BYTES: usize = 256 << 10;
/// Bytes of a ring, and of what a sender sends from.
pub const RING_BYTES: usize = PIECES as usize * PIECE_BYTES;

/// The time that the first sign of life from a sender may take, and a place that its peer has released until it is known here to be
/// free: that is the device's word, which only its own failure holds back.
const PATIENCE: Duration = Duration::from_secs(5);

/// The reason that nothing more goes this way, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

impl From<VerbsError> for Broken {
    fn from(error: VerbsError) -> Self {
        Self(error.to_string())
    }
}

/// A ring that waits for who accepts it.
pub struct Offered {
    end: End,
}

/// The end at which pieces arrive.
pub struct Receiver {
    end: End,
    /// Bytes of the piece that has arrived.
    arrived: Option<usize>,
    /// Pieces released.
    next: u64,
    emulated_by: Option<String>,
}

/// The end from which pieces come.
pub struct Sender {
    end: End,
    remote: Endpoint,
    posted: u64,
    completed: u64,
    failure: Option<Broken>,
}

/// The circumstances of an end: what it does not find out by itself.
#[derive(Clone)]
pub struct Circumstances {
    /// The name of its device; `None` for the first device whose port is up.
    pub device: Option<String>,
    /// The clock by which its patience with the device is counted.
    pub clock: Arc<dyn Clock>,
    /// The seed of the number that its first packet has. With another seed than the last run's, late packets of that run do not count.
    pub seed: u64,
}

/// Registers a ring; gives the ring, and the words for who is to write to it.
///
/// # Errors
/// What is missing, and what to do.
pub fn offer(circumstances: Circumstances) -> Result<(Vec<u8>, Offered), Unsupported> {
    let end = End::new(circumstances, Access::Write)?;
    let words = Endpoint {
        rkey: end.window.rkey(),
        address: end.window.address(0),
        pieces: PIECES,
        piece_bytes: PIECE_BYTES as u32,
        ..end.endpoint()
    };
    Ok((words.encode(), Offered { end }))
}

/// Connects to who has offered; gives the sending end, and the words that answer.
///
/// # Errors
/// What is missing, or why the offer is none.
pub fn accept(
    circumstances: Circumstances,
    offer: &[u8],
) -> Result<(Vec<u8>, Sender), Unsupported> {
    let theirs = Endpoint::decode(offer).and_then(Endpoint::with_ring)?;
    let mut end = End::new(circumstances, Access::None)?;
    end.connect(&theirs)?;
    let sender = Sender {
        remote: theirs,
        posted: 0,
        completed: 0,
        failure: None,
        end,
    };
    Ok((sender.end.endpoint().encode(), sender))
}

impl Offered {
    /// Connects to who has accepted, and sees that the device there answers.
    ///
    /// # Errors
    /// Why not.
    pub fn open(mut self, answer: &[u8]) -> Result<Receiver, Unsupported> {
        let theirs = Endpoint::decode(answer)?;
        self.end.connect(&theirs)?;
        for id in 0..PIECES.into() {
            self.end.lane.post_empty_receive(id).map_err(call)?;
        }
        self.end.knock()?;
        let mine = self.end.device.software().map(str::to_owned);
        Ok(Receiver {
            end: self.end,
            arrived: None,
            next: 0,
            emulated_by: mine.or(theirs.stand_in),
        })
    }
}

impl Receiver {
    /// The device's name.
    pub fn device(&self) -> &str {
        self.end.device.context.name()
    }

    /// The software that stands in for a device on either side, if something does.
    pub fn emulated_by(&self) -> Option<&str> {
        self.emulated_by.as_deref()
    }

    /// Bytes of the next piece, once it is there.
    ///
    /// # Errors
    /// The device's word for what went wrong; a piece out of turn, or longer than pieces are.
    pub fn arrived(&mut self) -> Result<Option<usize>, Broken> {
        if self.arrived.is_some() {
            return Ok(self.arrived);
        }
        let mut completion = [Completion::default()];
        if self.end.completions.poll(&mut completion)? == 0 {
            return Ok(None);
        }
        let [completion] = completion;
        succeeded(&completion)?;
        match (completion.immediate(), completion.bytes() as usize) {
            (Some(number), bytes) if number == self.next as u32 && bytes <= PIECE_BYTES => {
                // What was written before it completed is seen from here on.
                fence(Ordering::Acquire);
                self.arrived = Some(bytes);
                Ok(self.arrived)
            }
            (number, bytes) => Err(Broken(format!(
                "{bytes} bytes with the number {number:?} arrived where piece {} was due",
                self.next
            ))),
        }
    }

    /// Copies bytes of the piece that has arrived, from `at` on.
    ///
    /// # Panics
    /// If none has, or it has fewer bytes.
    pub fn copy(&self, at: usize, into: &mut [u8]) {
        let bytes = self.arrived.expect("a piece has arrived");
        assert!(at <= bytes && into.len() <= bytes - at, "of the piece");
        self.end.window.read(place(self.next) + at, into);
    }

    /// Makes room where the piece is that has arrived.
    ///
    /// # Errors
    /// The device's word for what went wrong.
    pub fn release(&mut self) -> Result<(), Broken> {
        self.arrived = None;
        let id = self.next;
        self.next += 1;
        Ok(self.end.lane.post_empty_receive(id)?)
    }

    /// The file that is readable when a piece has arrived since [`Receiver::arm`].
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.end.completions.file()
    }

    /// Has the file tell of the next piece; of one that has arrived by now it need not tell.
    ///
    /// # Errors
    /// The device's word for what went wrong.
    pub fn arm(&mut self) -> Result<(), Broken> {
        Ok(self.end.completions.arm()?)
    }

    /// Whether anything can still arrive.
    ///
    /// # Errors
    /// The port went down.
    pub fn check(&self) -> Result<(), Broken> {
        self.end.device.still_up().map_err(Broken)
    }
}

impl Sender {
    /// Pieces that the peer's ring holds.
    pub fn pieces(&self) -> u32 {
        self.remote.pieces
    }

    /// Bytes of a piece there.
    pub fn piece_bytes(&self) -> usize {
        self.remote.piece_bytes as usize
    }

    /// Writes the next piece: these parts, one after another. They may change again afterwards.
    ///
    /// # Errors
    /// The device's word for what went wrong.
    ///
    /// # Panics
    /// If it is longer than a piece.
    pub fn write(&mut self, parts: &[&[u8]]) -> Result<(), Broken> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert!(bytes <= self.piece_bytes(), "one piece");
        self.wait_for_place()?;
        let number = self.posted;
        let mut offset = place(number);
        for part in parts {
            self.end.window.write(offset, part);
            offset += part.len();
        }
        let there = number % u64::from(self.pieces()) * self.piece_bytes() as u64;
        let request = Request {
            kind: Kind::WriteImmediate(number as u32),
            id: number,
            offset: place(number),
            len: bytes as u32,
            remote: (self.remote.address + there, self.remote.rkey),
            is_inline: false,
            is_signalled: true,
        };
        if let Err(error) = self.end.lane.post([request].into_iter()) {
            return Err(self.fail(error.into()));
        }
        self.posted += 1;
        Ok(())
    }

    /// The number of pieces that are not known to have arrived.
    ///
    /// # Errors
    /// The device's word for what went wrong.
    pub fn in_flight(&mut self) -> Result<u32, Broken> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let mut completions = [Completion::default(); PIECES as usize];
        let count = match self.end.completions.poll(&mut completions) {
            Ok(count) => count,
            Err(error) => return Err(self.fail(error.into())),
        };
        for completion in &completions[..count] {
            if let Err(broken) = succeeded(completion) {
                return Err(self.fail(broken));
            }
            self.completed = completion.id() + 1;
        }
        Ok((self.posted - self.completed) as u32)
    }

    /// Waits until the place that is next here is free again: its piece has arrived, or its peer would not have released it.
    fn wait_for_place(&mut self) -> Result<(), Broken> {
        let mut silence = Silence::default();
        while self.in_flight()? >= PIECES {
            let left = PATIENCE.saturating_sub(silence.lasts(&*self.end.clock));
            if left.is_zero() {
                let why = format!("no piece was acknowledged for {PATIENCE:?}");
                return Err(self.fail(Broken(why)));
            }
            if let Err(error) = self.end.completions.arm() {
                return Err(self.fail(error.into()));
            }
            // The file need not tell of what completed before it was armed.
            if self.in_flight()? >= PIECES {
                self.end.completions.sleep(left);
            }
        }
        Ok(())
    }

    fn fail(&mut self, broken: Broken) -> Broken {
        self.failure.insert(broken).clone()
    }
}

impl fmt::Debug for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.end.device.context.name();
        f.debug_struct("Offered").field("device", &device).finish()
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("device", &self.device())
            .field("released", &self.next)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("device", &self.end.device.context.name())
            .field("posted", &self.posted)
            .field("completed", &self.completed)
            .finish_non_exhaustive()
    }
}

/// The offset of a piece's place in our own memory.
fn place(number: u64) -> usize {
    (number % u64::from(PIECES)) as usize * PIECE_BYTES
}

fn succeeded(completion: &Completion) -> Result<(), Broken> {
    match completion.failure() {
        None => Ok(()),
        Some(status) => {
            let text = super::status_text(status).unwrap_or_else(|| format!("status {status}"));
            let vendor = completion.vendor_code();
            Err(Broken(format!("{text} (the device's code {vendor:#x})")))
        }
    }
}

/// The parts that both ends have.
struct End {
    // The queue pair goes before what it uses.
    lane: RequestQueue,
    window: Arc<Window>,
    completions: Arc<CompletionQueue>,
    device: Device,
    address: Address,
    psn: u32,
    clock: Arc<dyn Clock>,
}

impl End {
    fn new(circumstances: Circumstances, access: Access) -> Result<Self, Unsupported> {
        let Circumstances {
            device,
            clock,
            seed,
        } = circumstances;
        let name = match device {
            Some(name) => name,
            None => bench::first_device().map_err(|e| unsupported(&e))?,
        };
        let device = Device::open(&name).map_err(|e| unsupported(&e))?;
        let address = device.address(None).map_err(|e| unsupported(&e))?;
        let domain = ProtectionDomain::new(&device.context).map_err(call)?;
        let window = Window::new(&domain, RING_BYTES, access).map_err(|refused| match refused {
            Refused::Memory => unsupported(&"no memory for the ring"),
            Refused::Device(error) => unsupported(&format!(
                "{error}; {RING_BYTES} bytes are registered for it, see `ulimit -l`"
            )),
        })?;
        let completions = CompletionQueue::with_file(&device.context, 2 * PIECES).map_err(call)?;
        let capacity = Capacity {
            sends: PIECES,
            receives: PIECES,
            inline_bytes: 0,
        };
        let pair = QueuePair::new(&domain, [&completions; 2], capacity).map_err(call)?;
        Ok(Self {
            psn: first_packet_number(seed, pair.number()),
            lane: RequestQueue::new(pair, window.clone(), 1),
            window,
            completions,
            device,
            address,
            clock,
        })
    }

    /// This side's endpoint; it has no ring of its own to show yet.
    fn endpoint(&self) -> Endpoint {
        Endpoint {
            mtu: self.device.link.mtu,
            lid: self.device.link.lid,
            qp_num: self.lane.number(),
            psn: self.psn,
            gid: self.address.gid,
            rkey: 0,
            address: 0,
            pieces: 0,
            piece_bytes: 0,
            stand_in: self.device.software().map(str::to_owned),
        }
    }

    fn connect(&mut self, theirs: &Endpoint) -> Result<(), Unsupported> {
        let is_ethernet = self.address.gid_index.is_some();
        if is_ethernet && is_v4(&theirs.gid) != is_v4(&self.address.gid) {
            return Err(unsupported(
                &"one side has an address of IPv4, the other none",
            ));
        }
        let route = Route {
            port: self.device.port,
            gid_index: self.address.gid_index,
            mtu: self.device.link.mtu.min(theirs.mtu),
            psn: self.psn,
            reads: 1,
            retry: Retry::BOUNDED,
            peer: RemotePair {
                lid: theirs.lid,
                gid: theirs.gid,
                qp_num: theirs.qp_num,
                psn: theirs.psn,
                reads: 1,
            },
        };
        self.lane.queue_pair().connect(&route).map_err(call)
    }

    /// Writes nothing to the peer, and waits until its device has acknowledged that: then both reach each other.
    fn knock(&mut self) -> Result<(), Unsupported> {
        let request = Request {
            kind: Kind::Write,
            id: 0,
            offset: 0,
            len: 0,
            remote: (0, 0),
            is_inline: false,
            is_signalled: true,
        };
        self.lane.post([request].into_iter()).map_err(call)?;
        let mut completion = [Completion::default()];
        let mut poll = || self.completions.poll(&mut completion).map_err(call);
        let mut silence = Silence::default();
        while poll()? == 0 {
            let left = PATIENCE.saturating_sub(silence.lasts(&*self.clock));
            if left.is_zero() {
                return Err(unsupported(&format!(
                    "the other side's device did not answer for {PATIENCE:?}"
                )));
            }
            self.completions.arm().map_err(call)?;
            // The file need not tell of what completed before it was armed.
            if poll()? > 0 {
                break;
            }
            self.completions.sleep(left);
        }
        succeeded(&completion[0]).map_err(|broken| {
            unsupported(&format!(
                "the other side's device does not answer: {broken}"
            ))
        })
    }
}

fn call(error: VerbsError) -> Unsupported {
    unsupported(&Problem::Call(error))
}

fn unsupported(why: &dyn fmt::Display) -> Unsupported {
    Unsupported {
        reason: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::WallClock;

    use super::*;

    #[test]
    fn a_device_that_is_not_here_is_named() {
        let circumstances = Circumstances {
            device: Some("no-such-device".to_owned()),
            clock: Arc::new(WallClock::default()),
            seed: 1,
        };
        let missing = offer(circumstances.clone()).expect_err("there is none");
        assert!(!missing.reason.is_empty());
        let offered = Endpoint::of_a_test().encode();
        let missing = accept(circumstances.clone(), &offered).expect_err("there is none");
        assert!(!missing.reason.is_empty());
        let refused = accept(circumstances, b"what?")
            .expect_err("no words")
            .reason;
        assert!(refused.contains("words"), "{refused}");
    }
}
