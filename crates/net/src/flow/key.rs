//! What tells flows apart: addresses, ports and protocol, the same for both directions.

/// A key of `N` words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key<const N: usize>(pub(super) [u64; N]);

impl<const N: usize> Key<N> {
    /// The protocol's number.
    pub(super) fn protocol(&self) -> u8 {
        (self.0[N - 1] >> 8) as u8
    }
}

/// The key of a flow over IPv4.
pub type V4 = Key<2>;
/// The key of a flow over IPv6.
pub type V6 = Key<5>;

/// Which of a flow's two directions a packet has: a key's own, from its lower end to its higher one, or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the lower end, by address and then by port, to the higher one.
    Up,
    /// Back.
    Down,
}

impl Direction {
    /// The other one.
    pub fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// The five-tuple of a packet, as it stands in its headers, with addresses of `A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple<A> {
    /// Where the packet comes from, and where it goes.
    pub addresses: [A; 2],
    /// The ports; of ICMP the identifier twice; zero where there are none.
    pub ports: [u16; 2],
    /// The protocol's number (IANA).
    pub protocol: u8,
}

impl<A: Ord + Copy> Tuple<A> {
    /// The two ends in order, and the direction that the packet has.
    fn in_order(self) -> ([A; 2], [u16; 2], Direction) {
        let ([from, to], [source, destination]) = (self.addresses, self.ports);
        match (from, source) <= (to, destination) {
            true => (self.addresses, self.ports, Direction::Up),
            false => ([to, from], [destination, source], Direction::Down),
        }
    }
}

impl Tuple<u32> {
    /// The key of the flow that the packet is part of, and its direction in it.
    pub fn key(self) -> (V4, Direction) {
        let ([low, high], ports, direction) = self.in_order();
        let addresses = u64::from(low) << 32 | u64::from(high);
        (Key([addresses, rest(ports, self.protocol)]), direction)
    }
}

impl Tuple<u128> {
    /// The key of the flow that the packet is part of, and its direction in it.
    pub fn key(self) -> (V6, Direction) {
        let ([low, high], ports, direction) = self.in_order();
        let words = |address: u128| [(address >> 64) as u64, address as u64];
        let ([a, b], [c, d]) = (words(low), words(high));
        (Key([a, b, c, d, rest(ports, self.protocol)]), direction)
    }
}

/// A word that is never zero, so that no key is all zeroes: an empty place has such a key.
fn rest([low, high]: [u16; 2], protocol: u8) -> u64 {
    u64::from(low) << 48 | u64::from(high) << 32 | u64::from(protocol) << 8 | 1
}

impl V4 {
    /// A key of two ends, address and port, that are not alike: in another order it is another key.
    pub(super) fn of_ends(own: (u32, u16), other: (u32, u16), protocol: u8) -> Self {
        let addresses = u64::from(own.0) << 32 | u64::from(other.0);
        Self([addresses, rest([own.1, other.1], protocol)])
    }

    /// The tuple of a packet of [`Direction::Up`].
    pub fn tuple(&self) -> Tuple<u32> {
        let Self([addresses, rest]) = *self;
        Tuple {
            addresses: [(addresses >> 32) as u32, addresses as u32],
            ports: [(rest >> 48) as u16, (rest >> 32) as u16],
            protocol: (rest >> 8) as u8,
        }
    }
}

impl V6 {
    /// The tuple of a packet of [`Direction::Up`].
    pub fn tuple(&self) -> Tuple<u128> {
        let Self([a, b, c, d, rest]) = *self;
        let address = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        Tuple {
            addresses: [address(a, b), address(c, d)],
            ports: [(rest >> 48) as u16, (rest >> 32) as u16],
            protocol: (rest >> 8) as u8,
        }
    }
}
