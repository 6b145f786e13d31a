//! Ciphertext stealing (IEEE 1619, 5.3.2 and 5.4.2): the end of a data unit whose last block is short.

use aes::cipher::inout::InOutBuf;
use dpb_core::Direction;

use super::form::BLOCK;

/// The last whole block and the short one behind it. `tweaks` are theirs; `one` does a block with a tweak.
pub(super) fn steal(
    direction: Direction,
    tweaks: [[u8; BLOCK]; 2],
    text: InOutBuf<'_, '_, u8>,
    one: impl Fn([u8; BLOCK], [u8; BLOCK]) -> [u8; BLOCK],
) {
    let [first, second] = match direction {
        Direction::Encrypt => tweaks,
        Direction::Decrypt => [tweaks[1], tweaks[0]],
    };
    let (mut whole, mut short) = text.split_at(BLOCK);
    let stolen = one(whole.get_in().try_into().expect("a block"), first);
    // The short block becomes the start of this one, and its own bytes take that place.
    let mut block = stolen;
    block[..short.len()].copy_from_slice(short.get_in());
    let rest = short.len();
    short.get_out().copy_from_slice(&stolen[..rest]);
    whole.get_out().copy_from_slice(&one(block, second));
}
