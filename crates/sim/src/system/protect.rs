//! Frames with a digest behind them (Woo and Chung, *DPU-based system evaluation with End-to-End Modular Simulation*, section 2).
//!
//! A frame is *classified* by its length and its headers, gets a digest when it is sent, and is verified and stripped when it is received. The
//! digest is computed by an operator behind the seam, over the bytes of the frame: a bit that was flipped on the way is found.
//!
//! Every frame whose type of Ethernet is IPv4 gets a digest, and a card refuses one without. Others get none and pass: ARP, IPv6, and a frame of which the way changed just that
//! type. Who has no key can make these.
//!
//! The paper does not say how a receiver tells a frame with a digest from one without. Both modes here are ours.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::{Buf, Completion, Items, Job, Memory, Operator, OutputShape, Queue, SetupError};

use super::frame::{FRAME_BYTES_MIN, Frame};

/// The ways in which a receiver tells that a frame carries a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By length, as the paper: the frame is longer than its IPv4 packet, padded to the least length of Ethernet, by just the digest.
    Length,
    /// By a mark of four bytes behind the digest, and the packet's length before padding in two more. No frame is taken for another, and one
    /// without a digest is refused.
    Mark,
}

impl Framing {
    /// The name in files and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Mark => "mark",
        }
    }

    const fn mark_bytes(self) -> usize {
        match self {
            Self::Length => 0,
            Self::Mark => MARK.len() + 2,
        }
    }
}

const MARK: [u8; 4] = *b"dpb1";

/// The outcome of a receiver's check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The digest is right; it was taken off.
    Right,
    /// The digest is wrong: the frame is not what was sent.
    Wrong,
    /// The frame carries no digest.
    Bare,
}

/// Counters of a protecting part. What came to be verified was `right`, `wrong` or `bare`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtectionUsage {
    /// Frames that got a digest.
    pub protected: u64,
    /// Frames that got none, as they are no IPv4 packets by the type of Ethernet: ARP, IPv6. Nobody authenticates them.
    pub passed: u64,
    /// Frames that were verified.
    pub right: u64,
    /// Frames that failed.
    pub wrong: u64,
    /// Frames that carried no digest.
    pub bare: u64,
}

/// Puts digests behind frames, and verifies them.
pub struct Protection {
    operator: Arc<dyn Operator>,
    framing: Framing,
    digest_bytes: usize,
    bytes: Vec<u8>,
    digest: Vec<u8>,
    usage: ProtectionUsage,
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Protection({}, {})",
            self.operator.spec(),
            self.framing.name()
        )
    }
}

impl Protection {
    /// Protection by an operator whose outputs are digests.
    ///
    /// # Errors
    /// [`SetupError::Parameter`] if its outputs have no fixed length, or do not fit into a frame's trailer.
    pub fn new(operator: Arc<dyn Operator>, framing: Framing) -> Result<Self, SetupError> {
        let refuse = |why: &str| SetupError::Parameter(format!("`{}` {why}", operator.spec()));
        let OutputShape::Fixed(digest_bytes) = operator.shape() else {
            return Err(refuse(
                "gives outputs of any length; a digest has one length",
            ));
        };
        if digest_bytes == 0 || digest_bytes > 64 {
            return Err(refuse("gives digests that are not of 1 to 64 bytes"));
        }
        Ok(Self {
            operator,
            framing,
            digest_bytes,
            bytes: Vec::new(),
            digest: Vec::new(),
            usage: ProtectionUsage::default(),
        })
    }

    /// Its counters so far.
    pub fn usage(&self) -> ProtectionUsage {
        self.usage
    }

    /// The bytes by which frames grow.
    pub fn trailer_bytes(&self) -> usize {
        self.digest_bytes + self.framing.mark_bytes()
    }

    /// True if the frame is one that gets a digest when it is sent: every IPv4 packet by the type of Ethernet.
    pub fn is_to_protect(&self, frame: &Frame) -> bool {
        frame.is_packet() && frame.trailer().is_empty()
    }

    /// Puts a digest behind the frame. Returns the bytes that were digested: none if the frame gets no digest. The lane is this part's, on this thread.
    ///
    /// # Errors
    /// What the operator says.
    pub fn protect(
        &mut self,
        frame: &mut Frame,
        lane: &mut ProtectionLane,
    ) -> Result<usize, String> {
        if !self.is_to_protect(frame) {
            self.usage.passed += 1;
            return Ok(0);
        }
        self.usage.protected += 1;
        frame.pad(FRAME_BYTES_MIN);
        let digested = self.compute(frame, lane)?;
        frame.append(&self.digest);
        if self.framing == Framing::Mark {
            let packet_bytes = frame.ipv4_end().unwrap_or(0) as u16;
            frame.append(&packet_bytes.to_be_bytes());
            frame.append(&MARK);
        }
        Ok(digested)
    }

    /// The bytes that verifying this frame digests; none if it carries no digest.
    pub fn bytes_to_verify(&self, frame: &mut Frame) -> usize {
        match self.find(frame) {
            true => frame.bytes() - self.trailer_bytes(),
            false => 0,
        }
    }

    /// Verifies the digest behind the frame and takes it off. The lane is this part's, on this thread.
    ///
    /// # Errors
    /// What the operator says.
    pub fn verify(
        &mut self,
        frame: &mut Frame,
        lane: &mut ProtectionLane,
    ) -> Result<Verdict, String> {
        if !self.find(frame) {
            self.usage.bare += 1;
            return Ok(Verdict::Bare);
        }
        self.compute(frame, lane)?;
        if frame.trailer()[..self.digest_bytes] != self.digest {
            self.usage.wrong += 1;
            return Ok(Verdict::Wrong);
        }
        frame.strip();
        frame.cut_padding();
        self.usage.right += 1;
        Ok(Verdict::Right)
    }

    /// True if the frame carries a digest, which is then its trailer.
    fn find(&self, frame: &mut Frame) -> bool {
        let trailer_bytes = self.trailer_bytes();
        let Some(end) = frame.ipv4_end() else {
            return false;
        };
        if frame.bytes() != end.max(FRAME_BYTES_MIN) + trailer_bytes {
            return false;
        }
        let Some(trailer) = frame.split_trailer(trailer_bytes) else {
            return false;
        };
        match self.framing {
            Framing::Length => true,
            Framing::Mark => {
                let mark = &trailer[self.digest_bytes..];
                mark[2..] == MARK && mark[..2] == (end as u16).to_be_bytes()
            }
        }
    }

    /// Computes the digest of the frame without its trailer.
    fn compute(&mut self, frame: &Frame, lane: &mut ProtectionLane) -> Result<usize, String> {
        self.bytes.clear();
        frame.write_packet(&mut self.bytes);
        lane.run(&self.operator, &self.bytes, &mut self.digest)?;
        Ok(self.bytes.len())
    }
}

/// The queue of a protecting part into its operator, opened when it is first needed. It stays on the thread that opened it, so the kernel keeps it
/// ([`Context::local`](crate::kernel::Context::local)): parts move to the kernel's threads.
#[derive(Default)]
pub struct ProtectionLane(Option<Lane>);

impl fmt::Debug for ProtectionLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_open = self.0.is_some();
        write!(
            f,
            "ProtectionLane({})",
            if is_open { "open" } else { "closed" }
        )
    }
}

impl ProtectionLane {
    /// Runs the operator over one item.
    fn run(
        &mut self,
        operator: &Arc<dyn Operator>,
        item: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), String> {
        let lane = match &mut self.0 {
            Some(lane) => lane,
            closed => closed.insert(Lane::open(operator).map_err(|wrong| wrong.to_string())?),
        };
        lane.run(item, output)
    }
}

/// A queue into an operator, with the job that goes in and out of it.
struct Lane {
    queue: Box<dyn Queue>,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
}

/// Longest frame whose digest is computed.
const ITEM_BYTES_MAX: usize = 16 << 10;

impl Lane {
    fn open(operator: &Arc<dyn Operator>) -> Result<Self, SetupError> {
        let [item, output] = [ITEM_BYTES_MAX, 64]
            .map(|bytes| Buf::zeroed(bytes).ok_or(SetupError::OutOfMemory { len: bytes }));
        let job = Job::new(0, item?, Items::fixed(0, 1), output?, operator.shape());
        Ok(Self {
            queue: Arc::clone(operator).open(NonZeroU32::MIN)?,
            ready: VecDeque::from([job]),
            done: Vec::with_capacity(1),
        })
    }

    fn run(&mut self, item: &[u8], output: &mut Vec<u8>) -> Result<(), String> {
        let job = self.ready.front_mut().ok_or("the job is lost")?;
        let bytes = match &mut job.src {
            Memory::Own(buffers) => buffers.first_mut().and_then(|it| it.get_mut(..item.len())),
            Memory::Shared(_) | Memory::Output => None,
        };
        let bytes = bytes.ok_or_else(|| format!("a frame of {} bytes is too long", item.len()))?;
        bytes.copy_from_slice(item);
        job.items = Items::fixed(item.len() as u32, 1);
        self.queue.submit(&mut self.ready);
        while self.queue.poll(&mut self.done) == 0 {
            self.queue.wait(WAIT);
        }
        let Completion { job, result, .. } = self.done.pop().ok_or("the job is lost")?;
        let digest_bytes = job.slots.place(0, &job.dst).len;
        output.clear();
        output.extend_from_slice(&job.dst[0][..digest_bytes]);
        self.ready.push_back(job);
        result.map_err(|wrong| wrong.to_string())
    }
}

/// Sleep between two looks for a job, of a backend that does not compute at once.
const WAIT: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::super::frame::Stream;
    use super::*;
    use dpb_core::conformance::sample::Sample;
    use dpb_core::{Backend, OpSpec, spec};

    fn protection(framing: Framing) -> Protection {
        let backend = Sample::new(None);
        let operator = backend.prepare(&OpSpec::from(spec::Crc32c));
        Protection::new(operator.expect("the sample computes CRC-32C"), framing)
            .expect("four bytes")
    }

    /// An IPv4 packet of so many bytes with its header, or an ARP frame.
    fn frame(ipv4_bytes: Option<u16>) -> Box<Frame> {
        let stream = Stream { seed: 1, offset: 0 };
        let mut head = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        let Some(bytes) = ipv4_bytes else {
            head.extend([8, 6]);
            return Frame::new(&head, stream, 28, 0);
        };
        head.extend([8, 0, 0x45, 0]);
        head.extend(bytes.to_be_bytes());
        head.extend([0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        Frame::new(&head, stream, u32::from(bytes) - 20, 0)
    }

    fn bytes(frame: &Frame) -> Vec<u8> {
        let mut out = Vec::new();
        frame.write(&mut out);
        out
    }

    #[test]
    fn a_digest_goes_on_and_comes_off() {
        for framing in [Framing::Length, Framing::Mark] {
            let mut protection = protection(framing);
            let mut lane = ProtectionLane::default();
            for length in [20, 21, 45, 46, 47, 100, 1500] {
                let mut sent = frame(Some(length));
                let before = bytes(&sent);
                protection.protect(&mut sent, &mut lane).expect("a digest");
                let on_wire = bytes(&sent);
                assert_eq!(
                    on_wire.len(),
                    before.len().max(60) + protection.trailer_bytes()
                );
                let mut padded = before.clone();
                padded.resize(before.len().max(60), 0);
                let digest = crc32c(&padded).to_le_bytes();
                assert_eq!(on_wire[padded.len()..][..4], digest);
                // As it is, and as another process hands it on.
                let from_outside = Frame::from_bytes(&on_wire, 0).expect("a frame");
                for mut received in [sent, from_outside] {
                    assert_eq!(protection.bytes_to_verify(&mut received), padded.len());
                    assert_eq!(
                        protection.verify(&mut received, &mut lane),
                        Ok(Verdict::Right)
                    );
                    assert_eq!(bytes(&received), before, "{framing:?}, {length}");
                }
            }
        }
    }

    /// CRC-32C bit by bit, by its definition (RFC 3720, appendix B.4).
    fn crc32c(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for &byte in bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            }
        }
        !crc
    }

    #[test]
    fn each_flipped_bit_is_found() {
        for framing in [Framing::Length, Framing::Mark] {
            let mut protection = protection(framing);
            let mut lane = ProtectionLane::default();
            let mut sent = frame(Some(50));
            protection.protect(&mut sent, &mut lane).expect("a digest");
            for bit in 0..sent.bytes() * 8 {
                let mut spoilt = sent.clone();
                spoilt.flip(bit);
                for mut received in [
                    spoilt.clone(),
                    Frame::from_bytes(&bytes(&spoilt), 0).expect("a frame"),
                ] {
                    let verdict = protection
                        .verify(&mut received, &mut lane)
                        .expect("a verdict");
                    assert_ne!(verdict, Verdict::Right, "{framing:?}, bit {bit}");
                }
            }
        }
    }

    /// A packet whose IPv4 header has eight bytes of options, as `ping -R` sends them.
    fn with_options() -> Vec<u8> {
        let mut out = bytes(&frame(Some(100)));
        out[14] = 0x47;
        out
    }

    #[test]
    fn packets_with_options_are_protected_too() {
        for framing in [Framing::Length, Framing::Mark] {
            let mut protection = protection(framing);
            let mut lane = ProtectionLane::default();
            let plain = with_options();
            let mut sent = Frame::from_bytes(&plain, 0).expect("a frame");
            let digested = protection.protect(&mut sent, &mut lane);
            assert_eq!(digested, Ok(plain.len()));
            let on_wire = bytes(&sent);
            let mut received = Frame::from_bytes(&on_wire, 0).expect("a frame");
            let verdict = protection.verify(&mut received, &mut lane);
            assert_eq!(verdict, Ok(Verdict::Right));
            assert_eq!(bytes(&received), plain);
            for bit in 0..on_wire.len() * 8 {
                let mut spoilt = Frame::from_bytes(&on_wire, 0).expect("a frame");
                spoilt.flip(bit);
                let verdict = protection
                    .verify(&mut spoilt, &mut lane)
                    .expect("a verdict");
                assert_ne!(verdict, Verdict::Right, "{framing:?}, bit {bit}");
            }
        }
    }

    #[test]
    fn what_carries_no_digest_is_told() {
        for framing in [Framing::Length, Framing::Mark] {
            let mut protection = protection(framing);
            let mut lane = ProtectionLane::default();
            let mut arp = frame(None);
            assert_eq!(protection.protect(&mut arp, &mut lane), Ok(0));
            assert_eq!(protection.verify(&mut arp, &mut lane), Ok(Verdict::Bare));
            let mut bare = frame(Some(100));
            assert_eq!(protection.verify(&mut bare, &mut lane), Ok(Verdict::Bare));
            let usage = protection.usage();
            assert_eq!((usage.passed, usage.bare, usage.right), (1, 2, 0));
        }
        // Four bytes that stand behind a packet by chance are taken for a digest, unless there is a mark: then the frame is bare.
        let mut chance = bytes(&frame(Some(100)));
        chance.extend([1, 2, 3, 4]);
        let verdict = |framing| {
            let mut received = Frame::from_bytes(&chance, 0).expect("a frame");
            protection(framing).verify(&mut received, &mut ProtectionLane::default())
        };
        assert_eq!(verdict(Framing::Length), Ok(Verdict::Wrong));
        assert_eq!(verdict(Framing::Mark), Ok(Verdict::Bare));
    }
}
