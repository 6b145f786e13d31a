//! CRCs that the CPU has an instruction for. It takes eight bytes a cycle, but a result three cycles later, and carry-less products run on another
//! port meanwhile. So of eight items of a batch four go through the instruction and four through products, side by side; and a long item
//! goes in strides, a part of each through three chains of the instruction, joined by a carry-less product (Gopal et al., Fast CRC Computation
//! for iSCSI Polynomial Using CRC32 Instruction, Intel 2011; fusion of both: corsix/fast-crc32).

use dpb_core::Batch;

use super::Algorithm;
use super::constants::power_of_x;
use super::folds::{blocks, joined};
use super::vectors::{Task, Vectors, by, by_vectors};

/// Items from this length on go one by one.
const ALONE_BYTES_MIN: usize = 1 << 15;
/// Items from this length on go in long strides.
const LONG_BYTES_MIN: usize = 1 << 13;
/// Words of each of three chains beside a step of eight vectors. The instruction takes as long for them as the products take, one of which starts in each cycle.
const CHAIN_WORDS: usize = 5;
/// Items from this length on have longer chains where products are slow.
const LONG_CHAINS_BYTES_MIN: usize = 1 << 12;
/// Words of each chain there: a long item then goes nearly all through the instruction. The second number is for what is left of it.
const LONG_CHAIN_WORDS: [usize; 2] = [64, 20];

/// The CRC of each item, into its slot.
pub(super) struct Each<'a, 'b, A: Algorithm>(
    pub(super) &'a Batch<'b>,
    pub(super) &'a mut [A::Slot],
);

impl<A: Algorithm> Task for Each<'_, '_, A> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, v: V) {
        let Self(batch, slots) = self;
        if let Some((items, 64)) = batch.contiguous() {
            return lines::<A, V>(v, items.as_chunks().0, slots);
        }
        let (groups, rest) = slots.as_chunks_mut::<8>();
        let grouped = groups.len() * 8;
        for (first, slots) in (0..).step_by(8).zip(groups) {
            let mut items: [&[u8]; 8] = [&[]; 8];
            let (mut shortest, mut longest) = (usize::MAX, 0);
            for (i, item) in items.iter_mut().enumerate() {
                *item = batch.item(first + i);
                shortest = shortest.min(item.len());
                longest = longest.max(item.len());
            }
            if shortest >= 16 && longest < ALONE_BYTES_MIN {
                let registers = eight::<A, V>(v, items, shortest);
                for (slot, register) in slots.iter_mut().zip(registers) {
                    *slot = A::slot(A::crc(register));
                }
            } else {
                for (slot, item) in slots.iter_mut().zip(items) {
                    *slot = A::slot(A::crc(v.enter(Advance::<A>::new(A::INITIAL, item))));
                }
            }
        }
        for (i, slot) in (grouped..).zip(rest) {
            let register = v.enter(Advance::<A>::new(A::INITIAL, batch.item(i)));
            *slot = A::slot(A::crc(register));
        }
    }
}

/// Items of 64 bytes: the code of four at a time has no loop.
#[inline(always)]
fn lines<A: Algorithm, V: Vectors>(v: V, items: &[[u8; 64]], slots: &mut [A::Slot]) {
    let (groups, rest) = items.as_chunks::<4>();
    let (slot_groups, slots_rest) = slots.as_chunks_mut::<4>();
    let by_16 = by::<A, V, 16>(v);
    let initial = v.first(A::INITIAL);
    for ([a, b, c, d], slots) in groups.iter().zip(slot_groups) {
        for (item, slot) in [a, b].into_iter().zip(&mut slots[..2]) {
            *slot = A::slot(A::crc(short::<A, V>(v, A::INITIAL, item)));
        }
        for (item, slot) in [c, d].into_iter().zip(&mut slots[2..]) {
            let mut lane = v.plus(v.load(item), initial);
            for at in [16, 32, 48] {
                lane = v.folded(lane, by_16, v.load(&item[at..]));
            }
            *slot = A::slot(A::crc(register_of::<A, V>(v, lane)));
        }
    }
    for (item, slot) in rest.iter().zip(slots_rest) {
        *slot = A::slot(A::crc(short::<A, V>(v, A::INITIAL, item)));
    }
}

/// See [`advance`].
struct Advance<'a, A>(u64, &'a [u8], std::marker::PhantomData<A>);

impl<'a, A> Advance<'a, A> {
    fn new(register: u64, data: &'a [u8]) -> Self {
        Self(register, data, std::marker::PhantomData)
    }
}

impl<A: Algorithm> Task for Advance<'_, A> {
    type Output = u64;

    #[inline(always)]
    fn run<V: Vectors>(self, v: V) -> u64 {
        advance::<A, V>(v, self.0, self.1)
    }
}

/// The registers after eight items, side by side as far as the shortest goes, which is sixteen bytes at least.
#[inline(always)]
fn eight<A: Algorithm, V: Vectors>(v: V, items: [&[u8]; 8], shortest: usize) -> [u64; 8] {
    let mut bodies: [&[[u8; 16]]; 8] = [&[]; 8];
    let mut rests: [&[u8]; 8] = [&[]; 8];
    for (i, item) in items.into_iter().enumerate() {
        let (body, rest) = item.split_at(shortest & !15);
        (bodies[i], rests[i]) = (body.as_chunks().0, rest);
    }
    let [a, b, c, d, e, f, g, h] = bodies;
    let chained = a.iter().zip(b).zip(c.iter().zip(d));
    let folded = e.iter().zip(f).zip(g.iter().zip(h));
    let mut registers = [A::INITIAL; 4];
    let mut lanes = [v.all([0; 2]); 4];
    // Zeros stay zeros however far they are moved.
    let mut start = v.first(A::INITIAL);
    let by_16 = by::<A, V, 16>(v);
    for (((a, b), (c, d)), ((e, f), (g, h))) in chained.zip(folded) {
        for (register, block) in registers.iter_mut().zip([a, b, c, d]) {
            let [low, high] = words_of(block);
            *register = v.word::<A>(v.word::<A>(*register, low), high);
        }
        for (lane, block) in lanes.iter_mut().zip([e, f, g, h]) {
            *lane = v.folded(*lane, by_16, v.plus(v.load(block), start));
        }
        start = v.all([0; 2]);
    }
    let mut all = [0; 8];
    for i in 0..4 {
        all[i] = registers[i];
        all[i + 4] = register_of::<A, V>(v, lanes[i]);
    }
    for (register, rest) in all.iter_mut().zip(rests) {
        *register = match rest.len() {
            0..16 => short::<A, V>(v, *register, rest),
            _ => v.enter(Advance::<A>::new(*register, rest)),
        };
    }
    all
}

#[inline(always)]
fn words_of(block: &[u8; 16]) -> [u64; 2] {
    let (words, _) = block.as_chunks::<8>();
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
}

/// The register of the lowest lane.
#[inline(always)]
fn register_of<A: Algorithm, V: Vectors>(v: V, lane: V::Vector) -> u64 {
    let early = v.word::<A>(0, v.half::<false>(lane));
    v.word::<A>(early, v.half::<true>(lane))
}

/// The register after `data`.
#[inline(always)]
pub(super) fn advance<A: Algorithm, V: Vectors>(v: V, register: u64, data: &[u8]) -> u64 {
    let (mut register, mut data) = (register, data);
    if data.len() >= LONG_CHAINS_BYTES_MIN && V::products_are_slow() {
        if data.len() >= const { 8 * step_bytes::<V>(LONG_CHAIN_WORDS[0]) } {
            (register, data) = strides::<A, V, 8, { LONG_CHAIN_WORDS[0] }>(v, register, data);
        }
        if data.len() >= const { 2 * step_bytes::<V>(LONG_CHAIN_WORDS[1]) } {
            (register, data) = strides::<A, V, 2, { LONG_CHAIN_WORDS[1] }>(v, register, data);
        }
    } else if data.len() >= LONG_BYTES_MIN {
        (register, data) = strides::<A, V, 8, CHAIN_WORDS>(v, register, data);
    }
    if data.len() >= const { 2 * step_bytes::<V>(CHAIN_WORDS) } {
        (register, data) = strides::<A, V, 2, CHAIN_WORDS>(v, register, data);
    }
    if V::BYTES > 16 && data.len() >= const { 4 * V::BYTES } {
        let (body, rest) = data.split_at(data.len() / V::BYTES * V::BYTES);
        let (first, body) = body.split_at(V::BYTES);
        let vector = blocks::<A, V>(v, v.plus(v.load(first), v.first(register)), body);
        register = register_of::<A, V::Narrow>(v.narrow(), v.last_lane::<A>(vector));
        data = rest;
    }
    short::<A, V>(v, register, data)
}

/// The register after `data`, by the instruction alone.
#[inline(always)]
pub(super) fn short<A: Algorithm, V: Vectors>(v: V, mut register: u64, data: &[u8]) -> u64 {
    let (words, bytes) = data.as_chunks::<8>();
    for word in words {
        register = v.word::<A>(register, u64::from_le_bytes(*word));
    }
    for &byte in bytes {
        register = v.byte::<A>(register, byte);
    }
    register
}

/// Bytes of a step: eight vectors, and a part of three chains.
const fn step_bytes<V: Vectors>(chain_words: usize) -> usize {
    8 * V::BYTES + 3 * chain_words * 8
}

/// The register after all strides of `data`, each of `STEPS` steps with `WORDS` words of each chain, and what is left.
#[inline(always)]
fn strides<A: Algorithm, V: Vectors, const STEPS: usize, const WORDS: usize>(
    v: V,
    mut register: u64,
    data: &[u8],
) -> (u64, &[u8]) {
    let mut strides = data.chunks_exact(const { STEPS * step_bytes::<V>(WORDS) });
    let by_8 = by_vectors::<A, V, 8>(v);
    let over_chains = v.all(const { stride_factors::<A, V>(STEPS, WORDS) });
    // Zeros stay zeros however far they are moved.
    let mut vectors = [v.all([0; 2]); 8];
    for stride in &mut strides {
        let (blocks, chains) = stride.split_at(const { STEPS * 8 * V::BYTES });
        let (a, chains) = chains.split_at(const { STEPS * WORDS * 8 });
        let (b, c) = chains.split_at(const { STEPS * WORDS * 8 });
        let (a, b, c) = (words::<WORDS>(a), words::<WORDS>(b), words::<WORDS>(c));
        let mut registers = [0; 3];
        // From the last vectors of a stride to the first of the next.
        let mut factors = over_chains;
        let steps = blocks.chunks_exact(const { 8 * V::BYTES });
        for (((step, a), b), c) in steps.zip(a).zip(b).zip(c) {
            for (vector, block) in vectors.iter_mut().zip(step.chunks_exact(V::BYTES)) {
                *vector = v.folded(*vector, factors, v.load(block));
            }
            factors = by_8;
            for i in 0..WORDS {
                registers[0] = v.word::<A>(registers[0], u64::from_le_bytes(a[i]));
                registers[1] = v.word::<A>(registers[1], u64::from_le_bytes(b[i]));
                registers[2] = v.word::<A>(registers[2], u64::from_le_bytes(c[i]));
            }
        }
        let carried = moved(
            v,
            register,
            const { power_of_x::<A>((STEPS * step_bytes::<V>(WORDS)) as u32 * 8 - 1) },
        ) ^ moved(
            v,
            registers[0],
            const { power_of_x::<A>((2 * STEPS * WORDS * 8) as u32 * 8 - 1) },
        ) ^ moved(
            v,
            registers[1],
            const { power_of_x::<A>((STEPS * WORDS * 8) as u32 * 8 - 1) },
        );
        register = registers[2] ^ v.word::<A>(0, carried);
    }
    let lane = v.last_lane::<A>(joined::<A, V, 8>(v, vectors));
    let before_chains = register_of::<A, V::Narrow>(v.narrow(), lane);
    let by_chains = const { power_of_x::<A>((3 * STEPS * WORDS * 8) as u32 * 8 - 1) };
    register ^= v.word::<A>(0, moved(v, before_chains, by_chains));
    (register, strides.remainder())
}

/// The factors that move eight vectors over the chains behind them.
const fn stride_factors<A: Algorithm, V: Vectors>(steps: usize, words: usize) -> [u64; 2] {
    let bytes = 8 * V::BYTES + 3 * steps * words * 8;
    super::constants::fold::<A>(super::vectors::order::<A, V>(), bytes as u32 * 8)
}

#[inline(always)]
fn words<const WORDS: usize>(bytes: &[u8]) -> &[[[u8; 8]; WORDS]] {
    bytes.as_chunks().0.as_chunks().0
}

/// The word whose CRC from a register of zero is `register` moved forward by what `factor` says.
#[inline(always)]
fn moved<V: Vectors>(v: V, register: u64, factor: u64) -> u64 {
    let v = v.narrow();
    v.half::<false>(v.product::<0x00>(v.first(register), v.first(factor)))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::{Castagnoli, portable};
    use super::*;
    use crate::isa::Sse42;

    /// The register after data, by strides with long chains, whoever made this CPU.
    struct Chained<'a>(&'a [u8]);

    impl Task for Chained<'_> {
        type Output = u64;

        #[inline(always)]
        fn run<V: Vectors>(self, v: V) -> u64 {
            type A = Castagnoli;
            let (register, rest) =
                strides::<A, V, 8, { LONG_CHAIN_WORDS[0] }>(v, A::INITIAL, self.0);
            let (register, rest) = strides::<A, V, 2, { LONG_CHAIN_WORDS[1] }>(v, register, rest);
            short::<A, V>(v, register, rest)
        }
    }

    #[test]
    fn long_chains_agree_with_portable() {
        let Some(proof) = Sse42::detect() else {
            return;
        };
        let bytes: Vec<u8> = (0..50_000u32)
            .map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8)
            .collect();
        for len in (0..3000).chain((3000..bytes.len()).step_by(1009)) {
            let right = portable::advance::<Castagnoli>(Castagnoli::INITIAL, &bytes[..len]);
            assert_eq!(proof.enter(Chained(&bytes[..len])), right, "{len}");
        }
    }
}
