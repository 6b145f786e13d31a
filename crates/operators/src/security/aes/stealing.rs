//! Ciphertext stealing (IEEE 1619, 5.3.2 and 5.4.2): the end of a data unit whose last block is short.

use dpb_core::Direction;

use super::form::BLOCK;

/// The last whole block and the short one behind it. `tweaks` are theirs; `one` does a block with a tweak.
pub(super) fn steal(
    direction: Direction,
    tweaks: [[u8; BLOCK]; 2],
    text: &[u8],
    to: &mut [u8],
    one: impl Fn([u8; BLOCK], [u8; BLOCK]) -> [u8; BLOCK],
) {
    let [first, second] = match direction {
        Direction::Encrypt => tweaks,
        Direction::Decrypt => [tweaks[1], tweaks[0]],
    };
    let (whole, short) = text.split_at(BLOCK);
    let (whole_to, short_to) = to.split_at_mut(BLOCK);
    let mut block = one(whole.try_into().expect("a block"), first);
    // The short block becomes the start of this one, and its own bytes take that place.
    short_to.copy_from_slice(&block[..short.len()]);
    block[..short.len()].copy_from_slice(short);
    whole_to.copy_from_slice(&one(block, second));
}
