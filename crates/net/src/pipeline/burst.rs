//! Packets that go through stages together: [`Burst`].

use std::fmt;

use dpb_core::Buf;

use crate::packet::Refusal;

/// The reason for which a packet was dropped, in a word or two. Reasons are open: a stage of one's own has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(pub &'static str);

impl Reason {
    /// The frame ends within Ethernet's header or a tag, or its IP packet does not have the length that it says.
    pub const TRUNCATED: Self = Self("truncated");
    /// Another header is cut short or contradicts itself, or a checksum is wrong.
    pub const MALFORMED: Self = Self("malformed");
    /// Neither IPv4 nor IPv6, where a stage needs one of them.
    pub const NOT_IP: Self = Self("not IP");
    /// An operator refused the packet's item.
    pub const REFUSED: Self = Self("refused by an operator");
    /// The job that the packet was part of was not carried out.
    pub const JOB_FAILED: Self = Self("job failed");
    /// No stage said where it goes, or there is no such port.
    pub const NO_EGRESS: Self = Self("no way out");
    /// The port that it would leave by has no room.
    pub const EGRESS_FULL: Self = Self("way out full");
    /// The port that it would leave by does not send packets so long.
    pub const TOO_LONG: Self = Self("too long");
    /// The shard that it belongs to has no room.
    pub const SHARD_FULL: Self = Self("shard full");
    /// The core that would work on it, or the one that would take it back, is gone.
    pub const CORE_GONE: Self = Self("core gone");
    /// There is no memory for the longer packet that would be made of it.
    pub const NO_MEMORY: Self = Self("no memory");
}

impl From<Refusal> for Reason {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Ethernet | Refusal::Tag | Refusal::IpLength => Self::TRUNCATED,
            _ => Self::MALFORMED,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The notes of stages on a packet, beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The number of the port that it came by.
    pub ingress: u16,
    /// The number of the port that it leaves by; [`Mark::NOWHERE`] until a stage says.
    pub egress: u16,
    /// A number that one stage leaves for a later one: a hash, the number of a next hop.
    pub value: u32,
    /// The reason for which it is dropped. The loop takes it out behind the stage that says so.
    pub dropped: Option<Reason>,
}

impl Mark {
    /// No port.
    pub const NOWHERE: u16 = u16::MAX;

    /// Of a packet that came by port `ingress`.
    pub fn of(ingress: u16) -> Self {
        Self {
            ingress,
            egress: Self::NOWHERE,
            value: 0,
            dropped: None,
        }
    }
}

/// A packet in its burst.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The frame.
    pub frame: &'a mut Buf,
    /// Its mark.
    pub mark: &'a mut Mark,
}

impl Packet<'_> {
    /// Has it dropped. A reason that it has already stays.
    pub fn drop_for(&mut self, reason: Reason) {
        self.mark.dropped.get_or_insert(reason);
    }
}

/// Packets on their way through the stages of one shard, in order.
///
/// A burst whose packets were all dropped goes on without any: its number must come.
#[derive(Debug, Default)]
pub struct Burst {
    /// Given by a line, in order; of that line's stages alone.
    pub(super) number: u64,
    /// The rings of stations by which it came, sixteen bits each, the last one lowest.
    pub(super) origins: u64,
    /// Packets that the line which it is in has taken out of it.
    pub(super) gone: u64,
    /// Packets that a line within the last stage took out of it, until that is counted.
    pub(super) gone_inside: u64,
    pub(super) packets: Vec<Buf>,
    /// As many as packets.
    pub(super) marks: Vec<Mark>,
}

impl Burst {
    /// An empty one with room for `packets`.
    pub fn with_capacity(packets: usize) -> Self {
        Self {
            packets: Vec::with_capacity(packets),
            marks: Vec::with_capacity(packets),
            ..Self::default()
        }
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if there is no packet.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The bytes of all frames.
    pub fn bytes(&self) -> usize {
        self.packets.iter().map(Buf::len).sum()
    }

    /// Its number in the line that it is in. Numbers of a line rise by one.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Appends a packet.
    pub fn push(&mut self, frame: Buf, mark: Mark) {
        self.packets.push(frame);
        self.marks.push(mark);
    }

    /// Has `receive` append packets, which came by port `ingress`.
    pub fn fill<T>(&mut self, ingress: u16, receive: impl FnOnce(&mut Vec<Buf>) -> T) -> T {
        let result = receive(&mut self.packets);
        self.marks.resize(self.packets.len(), Mark::of(ingress));
        result
    }

    /// The frames.
    pub fn frames(&self) -> &[Buf] {
        &self.packets
    }

    /// The marks, one for each frame.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Each packet in turn.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = Packet<'_>> {
        let both = self.packets.iter_mut().zip(&mut self.marks);
        both.map(|(frame, mark)| Packet { frame, mark })
    }

    /// Packet `i`.
    ///
    /// # Panics
    /// If there is no such packet.
    pub fn packet(&mut self, i: usize) -> Packet<'_> {
        Packet {
            frame: &mut self.packets[i],
            mark: &mut self.marks[i],
        }
    }

    /// Takes all packets out, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = (Buf, Mark)> + '_ {
        self.packets.drain(..).zip(self.marks.drain(..))
    }

    /// Takes out those packets that are to be dropped, and tells the reason and the bytes of each. The others keep their order.
    pub(super) fn sweep(&mut self, mut dropped: impl FnMut(Reason, usize)) {
        if self.marks.iter().all(|mark| mark.dropped.is_none()) {
            return;
        }
        let mut kept = 0;
        for i in 0..self.packets.len() {
            match self.marks[i].dropped {
                Some(reason) => dropped(reason, self.packets[i].len()),
                None => {
                    self.packets.swap(kept, i);
                    self.marks.swap(kept, i);
                    kept += 1;
                }
            }
        }
        self.gone += (self.packets.len() - kept) as u64;
        self.packets.truncate(kept);
        self.marks.truncate(kept);
    }

    /// Has all packets dropped.
    pub(super) fn drop_all(&mut self, reason: Reason) {
        for mut packet in self.iter_mut() {
            packet.drop_for(reason);
        }
    }

    /// As new, with the room that it has.
    pub(super) fn renew(&mut self) {
        self.packets.clear();
        self.marks.clear();
        (self.number, self.origins) = (0, 0);
        (self.gone, self.gone_inside) = (0, 0);
    }
}
