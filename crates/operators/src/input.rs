//! Inputs by seed: the same seed gives the same bytes on every machine.

use dpb_core::Input;
use dpb_core::random::SplitMix64;

/// `count` items of `item_bytes` of text: words of two to nine letters out of 4,096, drawn so that the *n*-th word is
/// about *n* times rarer than the first, as in natural language. Compresses about as English does.
///
/// # Panics
/// If `item_bytes` or `count` does not fit 32 bits.
pub fn text(seed: u64, item_bytes: usize, count: usize) -> Input {
    let total = item_bytes * count;
    let mut random = SplitMix64::new(seed);
    let words = vocabulary(&mut random);
    let mut bytes = Vec::with_capacity(total + 16);
    while bytes.len() < total {
        bytes.extend_from_slice(words[rank(&mut random, words.len())].letters());
        let separator: &[u8] = match random.next_u64() % 16 {
            0 => b".\n",
            1 => b", ",
            _ => b" ",
        };
        bytes.extend_from_slice(separator);
    }
    bytes.truncate(total);
    Input::fixed(
        "generated text, words by Zipf's law",
        bytes,
        item_bytes,
        count,
    )
}

/// A word in place: a job of one short item has a vocabulary of its own, and an allocation for each word took longer than the job.
struct Word {
    letters: [u8; 9],
    len: u8,
}

impl Word {
    fn letters(&self) -> &[u8] {
        &self.letters[..usize::from(self.len)]
    }
}

fn vocabulary(random: &mut SplitMix64) -> Vec<Word> {
    /// English letters, the frequent ones more often.
    const LETTERS: &[u8] = b"eeeeeetttttaaaaooooiiiinnnnssshhhrrrddlluuccmmfwygpbvk";
    let mut word = || {
        let len = 2 + (random.next_u64() % 8) as u8;
        let mut letters = [0; 9];
        for place in &mut letters[..usize::from(len)] {
            *place = LETTERS[(random.next_u64() % LETTERS.len() as u64) as usize];
        }
        Word { letters, len }
    };
    (0..4096).map(|_| word()).collect()
}

/// A rank below `n`, a power of two, with a density of about 1/rank: every octave of ranks is equally likely.
fn rank(random: &mut SplitMix64, n: usize) -> usize {
    let draw = random.next_u64();
    let octave = (draw >> 32) % (u64::from(n.ilog2()) + 1);
    let start = (1u64 << octave) >> 1;
    (start + (draw & 0xffff_ffff) % start.max(1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of two versions are of the same bytes.
    #[test]
    fn a_seed_gives_the_text_that_it_always_gave() {
        let expected = b"naw sdl ptl oe fr naw eh yebo ewceer, itbolnee rdea sdl naw ewii";
        assert_eq!(text(1, 64, 1).bytes[..], expected[..]);
    }
}
