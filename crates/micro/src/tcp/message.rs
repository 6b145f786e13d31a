//! Messages: a number, then bytes that the seed gives.
//!
//! Message *k* of a connection has the number *k* in its first eight bytes and the pattern of slot *k* mod *n* behind it. Neighbours differ in all their bytes, so
//! neither a byte that is lost or doubled nor one that an earlier message left in the buffer goes unnoticed.

use dpb_core::random::SplitMix64;

/// The number of the message that ends a phase.
pub(super) const MARK: u64 = u64::MAX;
/// Bytes of the number.
const NUMBER_BYTES: usize = 8;

/// The bytes of a connection's messages, one after the other.
#[derive(Debug)]
pub(super) struct Pattern {
    slots: Vec<u8>,
    size: usize,
    /// The number of the next message.
    next: u64,
}

impl Pattern {
    /// Of `slots` messages with `size` bytes.
    pub(super) fn new(size: usize, slots: usize, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut bytes = vec![0; size * slots];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
        }
        Self {
            slots: bytes,
            size,
            next: 0,
        }
    }

    /// All slots, as a ring to send from has them; numbers are not set.
    pub(super) fn ring(&self) -> &[u8] {
        &self.slots
    }

    /// Whether `bytes` are the next message; whether it is the mark.
    ///
    /// # Errors
    /// A sentence that says what differs.
    pub(super) fn check(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let number = number(bytes);
        if number != self.next && number != MARK {
            return Err(format!(
                "a message has the number {number}, not {}",
                self.next
            ));
        }
        let slot = (self.next % (self.slots.len() / self.size) as u64) as usize * self.size;
        let right = &self.slots[slot + NUMBER_BYTES..slot + self.size];
        if bytes[NUMBER_BYTES..] != *right {
            let at = right.iter().zip(&bytes[NUMBER_BYTES..]);
            let at = at.take_while(|(right, byte)| right == byte).count();
            return Err(format!(
                "byte {} of message {} is {}, not {}",
                at + NUMBER_BYTES,
                self.next,
                bytes[at + NUMBER_BYTES],
                right[at]
            ));
        }
        self.next += 1;
        Ok(number == MARK)
    }
}

/// The number of a message.
pub(super) fn number(message: &[u8]) -> u64 {
    u64::from_le_bytes(message[..NUMBER_BYTES].try_into().expect("eight bytes"))
}

/// Gives a message its number.
pub(super) fn set_number(message: &mut [u8], number: u64) {
    message[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
}

/// The seed of a connection's pattern.
pub(super) fn seed_of(seed: u64, connection: u32) -> u64 {
    SplitMix64::new(seed ^ (u64::from(connection) << 32)).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_message_counts() {
        for size in [8, 9, 64, 100] {
            let slots = 3;
            let ring = Pattern::new(size, slots, 7).ring().to_vec();
            let message = |number: u64| {
                let mut message = ring[number as usize % slots * size..][..size].to_vec();
                set_number(&mut message, number);
                message
            };
            let mut right = Pattern::new(size, slots, 7);
            for number in 0..10 {
                assert_eq!(right.check(&message(number)), Ok(false), "{number}");
            }
            let mut mark = message(10);
            set_number(&mut mark, MARK);
            assert_eq!(right.check(&mark), Ok(true));
            for at in 0..size {
                let mut wrong = message(11);
                wrong[at] ^= 0x10;
                assert!(right.check(&wrong).is_err(), "byte {at}");
            }
            for other in [10, 12] {
                assert!(right.check(&message(other)).is_err(), "{other}");
            }
            assert_eq!(right.check(&message(11)), Ok(false));
        }
        assert_ne!(seed_of(1, 0), seed_of(1, 1));
    }
}
