//! The outside ports of an address that are free.

use dpb_core::random::SplitMix64;

/// Port numbers, one bit each.
pub(super) struct Ports {
    free: Box<[u64; WORDS]>,
    left: u32,
    owned: u32,
}

const WORD_BITS: usize = 64;
const WORDS: usize = (1 << 16) / WORD_BITS;
/// The words of the ports below 1024, which a port of that range is mapped to, and no other (RFC 4787, REQ-3a).
const WELL_KNOWN_WORDS: usize = 1024 / WORD_BITS;
const EVEN: u64 = 0x5555_5555_5555_5555;

impl Ports {
    /// Those that `owns` says are this shard's.
    pub(super) fn new(owns: impl Fn(u16) -> bool) -> Self {
        let mut ports = Self {
            free: Box::new([0; WORDS]),
            left: 0,
            owned: 0,
        };
        for port in (0..=u16::MAX).filter(|port| owns(*port)) {
            ports.put(port);
            ports.owned += 1;
        }
        ports
    }

    /// The free ones.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// True if none was ever this shard's.
    pub(super) fn is_nobodys(&self) -> bool {
        self.owned == 0
    }

    /// A free port for the inside port `wanted`: that itself if it is free and `keeps`; else one that is drawn at random among those of its range, of
    /// its parity if `is_paired` and there is one.
    pub(super) fn take(
        &mut self,
        wanted: u16,
        keeps: bool,
        is_paired: bool,
        random: &mut SplitMix64,
    ) -> Option<u16> {
        let port = match keeps && self.is_free(wanted) {
            true => wanted,
            false => self.choose(wanted, is_paired, random)?,
        };
        let (word, bit) = place(port);
        self.free[word] &= !bit;
        self.left -= 1;
        Some(port)
    }

    fn choose(&self, wanted: u16, is_paired: bool, random: &mut SplitMix64) -> Option<u16> {
        let (below, above) = ((0, WELL_KNOWN_WORDS), (WELL_KNOWN_WORDS, WORDS));
        let ranges = match usize::from(wanted) < WELL_KNOWN_WORDS * WORD_BITS {
            true => [below, above],
            false => [above, below],
        };
        let parity = if wanted.is_multiple_of(2) {
            EVEN
        } else {
            !EVEN
        };
        let masks = if is_paired { [parity, !0] } else { [!0, !0] };
        for (start, end) in ranges {
            for mask in masks {
                let from = random.below((end - start) * WORD_BITS);
                if let Some(port) = self.find((start, end), from, mask) {
                    return Some(port);
                }
            }
        }
        None
    }

    /// The first free port from the `from`th of these words on, around their end, that `mask` has.
    fn find(&self, (start, end): (usize, usize), from: usize, mask: u64) -> Option<u16> {
        let words = end - start;
        let (first, bit) = (from / WORD_BITS, from % WORD_BITS);
        // The first word twice: from the bit on, and at last what is before it.
        for step in 0..=words {
            let at = start + (first + step) % words;
            let part = match step {
                0 => !0 << bit,
                step if step == words => !(!0 << bit),
                _ => !0,
            };
            let free = self.free[at] & mask & part;
            if free != 0 {
                return Some((at * WORD_BITS) as u16 + free.trailing_zeros() as u16);
            }
        }
        None
    }

    fn is_free(&self, port: u16) -> bool {
        let (word, bit) = place(port);
        self.free[word] & bit != 0
    }

    /// Gives a port back.
    pub(super) fn put(&mut self, port: u16) {
        let (word, bit) = place(port);
        debug_assert_eq!(self.free[word] & bit, 0, "port {port} was free");
        self.free[word] |= bit;
        self.left += 1;
    }
}

fn place(port: u16) -> (usize, u64) {
    let port = usize::from(port);
    (port / WORD_BITS, 1 << (port % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_is_given_once_and_all_are() {
        let mut random = SplitMix64::new(1);
        let mut ports = Ports::new(|port| port >= 1024 && port % 3 != 0);
        let all = ports.left() as usize;
        assert_eq!(all, (1024..=65535).filter(|port| port % 3 != 0).count());
        let mut taken = HashSet::new();
        for round in 0..2 {
            while let Some(port) = ports.take(4000, false, round == 1, &mut random) {
                assert!(port >= 1024 && port % 3 != 0);
                assert!(taken.insert(port), "port {port} twice");
            }
            assert_eq!((taken.len(), ports.left()), (all, 0));
            taken.drain().for_each(|port| ports.put(port));
            assert_eq!(ports.left() as usize, all);
        }
        assert!(!ports.is_nobodys());
        assert!(Ports::new(|_| false).is_nobodys());
    }

    #[test]
    fn ranges_and_parity_are_kept_as_long_as_they_can() {
        let mut random = SplitMix64::new(2);
        let mut ports = Ports::new(|_| true);
        for wanted in [80, 81] {
            for _ in 0..512 {
                let port = ports.take(wanted, false, true, &mut random).expect("free");
                assert!(port < 1024 && port % 2 == wanted % 2, "{wanted}: {port}");
            }
        }
        let port = ports.take(80, false, true, &mut random).expect("elsewhere");
        assert!(port >= 1024 && port.is_multiple_of(2));
        for wanted in [5000, 5001] {
            assert_eq!(ports.take(wanted, true, true, &mut random), Some(wanted));
            let other = ports.take(wanted, true, true, &mut random).expect("free");
            assert!(other >= 1024 && other != wanted && other % 2 == wanted % 2);
        }
    }
}
