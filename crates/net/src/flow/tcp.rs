//! What a flow knows of its connection: how far it has come, as a middlebox sees it (RFC 9293, 3.3.2; RFC 5382).

/// The flags of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from this side.
    pub const FIN: Self = Self(0x01);
    /// A connection is asked for.
    pub const SYN: Self = Self(0x02);
    /// There is no such connection.
    pub const RST: Self = Self(0x04);
    /// The acknowledgement counts.
    pub const ACK: Self = Self(0x10);

    /// Both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if all of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True of the packet that asks for a connection.
    const fn opens(self) -> bool {
        self.has(Self::SYN) && !self.has(Self::ACK)
    }
}

/// How far a flow has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// UDP, or another protocol without connections.
    Datagrams,
    /// ICMP's echo and the like.
    Icmp,
    /// TCP: a connection was asked for.
    Opening,
    /// It was granted.
    Answered,
    /// Packets of a connection whose start was not seen; none in the other direction yet.
    Midstream,
    /// Both sides send.
    Established,
    /// The side that asked has no more to send.
    ClosingByInitiator,
    /// The side that granted has no more to send.
    ClosingByResponder,
    /// Both have none, or one side says that there is no connection. The same tuple may open another.
    Closed,
}

impl State {
    /// All of them, by their numbers.
    const ALL: [Self; 9] = [
        Self::Datagrams,
        Self::Icmp,
        Self::Opening,
        Self::Answered,
        Self::Midstream,
        Self::Established,
        Self::ClosingByInitiator,
        Self::ClosingByResponder,
        Self::Closed,
    ];

    /// The state with a number below [`State::NUMBERS`].
    #[inline(always)]
    pub(super) const fn of(number: u8) -> Self {
        match number as usize {
            number if number < Self::ALL.len() => Self::ALL[number],
            _ => Self::Datagrams,
        }
    }

    /// States have numbers below this.
    pub(super) const NUMBERS: usize = 16;

    /// [`State::after`] by numbers, looked up: decided by branches it would be mispredicted in traffic of several kinds. [`Self::BEGINS`] if the
    /// packet begins another connection.
    #[inline(always)]
    pub(super) fn number_after(number: u8, flags: Option<Flags>, is_by_initiator: bool) -> u8 {
        let class = match flags {
            Some(Flags(flags)) => flags & CLASS_MASK,
            None => CLASS_NONE,
        };
        let at = usize::from(number) << 6 | usize::from(is_by_initiator) << 5 | usize::from(class);
        AFTER[at % AFTER.len()]
    }

    /// In place of a state's number: the packet begins another connection.
    pub(super) const BEGINS: u8 = u8::MAX;

    /// Of a flow whose first packet this is; and whether that packet comes from the side that asked.
    pub(super) fn first(protocol: u8, flags: Option<Flags>) -> (Self, bool) {
        const ICMP: u8 = 1;
        const ICMPV6: u8 = 58;
        let Some(flags) = flags else {
            let is_icmp = matches!(protocol, ICMP | ICMPV6);
            return (if is_icmp { Self::Icmp } else { Self::Datagrams }, true);
        };
        if flags.has(Flags::RST) {
            (Self::Closed, true)
        } else if flags.opens() {
            (Self::Opening, true)
        } else if flags.has(Flags::SYN) {
            (Self::Answered, false)
        } else if flags.has(Flags::FIN) {
            (Self::ClosingByInitiator, true)
        } else {
            (Self::Midstream, true)
        }
    }

    /// After a packet with `flags`. `None` if it begins another connection.
    pub(super) const fn after(self, flags: Option<Flags>, is_by_initiator: bool) -> Option<Self> {
        let Some(flags) = flags else {
            return Some(self);
        };
        if flags.opens() && matches!(self, Self::Closed) {
            return None;
        }
        if flags.has(Flags::RST) {
            return Some(Self::Closed);
        }
        if flags.has(Flags::FIN) {
            return Some(match (self, is_by_initiator) {
                (Self::Closed, _)
                | (Self::ClosingByInitiator, false)
                | (Self::ClosingByResponder, true) => Self::Closed,
                (_, true) => Self::ClosingByInitiator,
                (_, false) => Self::ClosingByResponder,
            });
        }
        Some(match self {
            Self::Opening if !is_by_initiator && flags.has(Flags::SYN.with(Flags::ACK)) => {
                Self::Answered
            }
            Self::Answered if is_by_initiator && flags.has(Flags::ACK) => Self::Established,
            Self::Midstream if !is_by_initiator => Self::Established,
            same => same,
        })
    }
}

/// The flags that decide.
const CLASS_MASK: u8 = 0x17;
/// In place of flags: none.
const CLASS_NONE: u8 = 0x18;

/// [`State::after`] for each state, side and class of flags.
static AFTER: [u8; State::NUMBERS << 6] = {
    let mut after = [0; State::NUMBERS << 6];
    let mut at = 0;
    while at < after.len() {
        let class = at as u8 & 31;
        let flags = match class {
            0..CLASS_NONE => Some(Flags(class)),
            _ => None,
        };
        after[at] = match State::of((at >> 6) as u8).after(flags, at >> 5 & 1 == 1) {
            Some(state) => state as u8,
            None => State::BEGINS,
        };
        at += 1;
    }
    after
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looked_up_and_decided_are_alike() {
        for (number, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, number);
            for is_by_initiator in [false, true] {
                let each = (0..=255).map(|flags| Some(Flags(flags)));
                for flags in each.chain([None]) {
                    let decided = state.after(flags, is_by_initiator);
                    let number = State::number_after(number as u8, flags, is_by_initiator);
                    assert_eq!(decided.map_or(State::BEGINS, |state| state as u8), number);
                }
            }
        }
    }
}
