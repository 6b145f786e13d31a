//! Inputs by seed: the same seed gives the same bytes on every machine.

use dpb_core::random::SplitMix64;
use dpb_core::{Batch, BatchOut, Items, OpSpec};

use crate::direct::Direct;

/// What an operator is run on.
#[derive(Clone, Debug)]
pub struct Input {
    /// What it is, in a few words.
    pub what: String,
    /// The items, one after another.
    pub bytes: Vec<u8>,
    /// How they split.
    pub items: Items,
    /// For a decoder: how long an output slot must be. `None`: what the operator's `dst_len` says.
    pub slot_bytes: Option<usize>,
}

impl Input {
    /// Order-0 entropy of the bytes, in bits per byte: 8 for random ones, about 4 for text.
    pub fn entropy_bits_per_byte(&self) -> f64 {
        let mut counts = [0u64; 256];
        for byte in &self.bytes {
            counts[usize::from(*byte)] += 1;
        }
        let total = self.bytes.len() as f64;
        counts
            .iter()
            .filter(|count| **count > 0)
            .map(|count| *count as f64 / total)
            .map(|share| -share * share.log2())
            .sum()
    }

    /// Each item as `encoder`, whose kernel is given, writes it: what a decoder reads, with slots for the longest item.
    pub(crate) fn encoded(self, encoder: &OpSpec, kernel: &mut dyn Direct) -> Result<Self, String> {
        let broke = |what: String| format!("{encoder} cannot encode {}: {what}", self.what);
        let batch = Batch::new(&self.bytes, &self.items).map_err(|e| broke(e.to_string()))?;
        let longest = batch.longest();
        let slot = kernel.dst_len(longest);
        let mut dst = vec![0; slot * batch.len()];
        let mut outcomes = Vec::with_capacity(batch.len());
        let out = BatchOut {
            dst: &mut dst,
            slot,
            outcomes: &mut outcomes,
        };
        kernel.run(batch, out).map_err(|e| broke(e.to_string()))?;
        let (mut bytes, mut offsets) = (Vec::new(), vec![0]);
        for (i, outcome) in outcomes.into_iter().enumerate() {
            let len = outcome.map_err(|e| broke(format!("item {i}: {e}")))?;
            bytes.extend_from_slice(&dst[i * slot..][..len as usize]);
            let end = u32::try_from(bytes.len()).map_err(|_| broke("4 GiB and more".into()))?;
            offsets.push(end);
        }
        Ok(Self {
            what: format!("{encoder} of {}", self.what),
            bytes,
            items: Items::Offsets(offsets.into()),
            slot_bytes: Some(longest),
        })
    }
}

/// `count` items of `item_bytes` uniformly random bytes.
///
/// # Panics
/// If `item_bytes` or `count` does not fit 32 bits.
pub fn random(seed: u64, item_bytes: usize, count: usize) -> Input {
    let mut random = SplitMix64::new(seed);
    let mut bytes = vec![0; item_bytes * count];
    for word in bytes.chunks_mut(8) {
        let len = word.len();
        word.copy_from_slice(&random.next_u64().to_le_bytes()[..len]);
    }
    Input {
        what: "uniformly random bytes".to_owned(),
        bytes,
        items: fixed(item_bytes, count),
        slot_bytes: None,
    }
}

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
        bytes.extend_from_slice(&words[rank(&mut random, words.len())]);
        let separator: &[u8] = match random.next_u64() % 16 {
            0 => b".\n",
            1 => b", ",
            _ => b" ",
        };
        bytes.extend_from_slice(separator);
    }
    bytes.truncate(total);
    Input {
        what: "generated text, words by Zipf's law".to_owned(),
        bytes,
        items: fixed(item_bytes, count),
        slot_bytes: None,
    }
}

fn fixed(item_bytes: usize, count: usize) -> Items {
    Items::Fixed {
        len: u32::try_from(item_bytes).expect("items stay below 4 GiB"),
        count: u32::try_from(count).expect("fewer than 2^32 items"),
    }
}

fn vocabulary(random: &mut SplitMix64) -> Vec<Vec<u8>> {
    /// English letters, the frequent ones more often.
    const LETTERS: &[u8] = b"eeeeeetttttaaaaooooiiiinnnnssshhhrrrddlluuccmmfwygpbvk";
    (0..4096)
        .map(|_| {
            let len = 2 + random.next_u64() % 8;
            (0..len)
                .map(|_| LETTERS[(random.next_u64() % LETTERS.len() as u64) as usize])
                .collect()
        })
        .collect()
}

/// A rank below `n`, a power of two, with a density of about 1/rank: every octave of ranks is equally likely.
fn rank(random: &mut SplitMix64, n: usize) -> usize {
    let draw = random.next_u64();
    let octave = (draw >> 32) % (u64::from(n.ilog2()) + 1);
    let start = (1u64 << octave) >> 1;
    (start + (draw & 0xffff_ffff) % start.max(1)) as usize
}
