//! What the kernel asks of an instruction set: vectors of one, two or four lanes of 128 bits, carry-less products in each, and the
//! CRC instruction for the polynomials that there is one for.

use super::Algorithm;
use super::constants::{Barrett, Order, fold};

/// The longest vector, in bytes.
pub(super) const BYTES_MAX: usize = 64;

/// Vectors of an instruction set. The value is the proof that its instructions are there; every method is inlined into the function
/// that may use them. The earliest bytes of a message are in the lowest lane.
pub(super) trait Vectors: Copy {
    type Vector: Copy;

    /// Bytes of a vector: sixteen a lane.
    const BYTES: usize;
    /// True if [`Vectors::turned`] reverses the bits of each byte, where that is cheap; false if it reverses the bytes of each lane.
    const TURNS_BITS: bool;
    /// True if long items are better read by cache lines: every other load would cross one.
    const BY_CACHE_LINES: bool;

    /// The same with vectors of one lane.
    type Narrow: Vectors;

    /// True if this CPU starts a product only in every second cycle, but the CRC instruction in each.
    #[inline(always)]
    fn products_are_slow() -> bool {
        false
    }

    /// Runs `task` in a function that may use the instructions.
    fn enter<T: Task>(self, task: T) -> T::Output;

    fn narrow(self) -> Self::Narrow;

    /// The first bytes of `bytes`.
    fn load(self, bytes: &[u8]) -> Self::Vector;

    /// The first `len` bytes of `item`, 1 to [`Vectors::BYTES`], in the top of a vector, zeros below. The item has at least sixteen, unless
    /// vectors load by a mask.
    fn head(self, item: &[u8], len: usize) -> Self::Vector;

    /// A word in the low half of the lowest lane, zeros above.
    fn first(self, word: u64) -> Self::Vector;

    /// The same in all lanes.
    fn all(self, lane: [u64; 2]) -> Self::Vector;

    fn plus(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// In each lane, the product of two halves: bit 0 of `HALVES` says which one of `a`, bit 4 which one of `b`.
    fn product<const HALVES: i32>(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// `early`, moved forward by what `factors` stand for, added to `late`.
    #[inline(always)]
    fn folded(
        self,
        early: Self::Vector,
        factors: Self::Vector,
        late: Self::Vector,
    ) -> Self::Vector {
        let low = self.product::<0x00>(early, factors);
        let high = self.product::<0x11>(early, factors);
        self.plus(self.plus(low, high), late)
    }

    /// See [`Vectors::TURNS_BITS`].
    fn turned(self, bytes: Self::Vector) -> Self::Vector;

    /// In each lane, the low half in the high one's place, and zeros below; the high half in the low one's place.
    fn up(self, lanes: Self::Vector) -> Self::Vector;
    fn down(self, lanes: Self::Vector) -> Self::Vector;

    /// All lanes in one.
    fn last_lane<A: Algorithm>(self, item: Self::Vector) -> <Self::Narrow as Vectors>::Vector;

    /// A half of the lowest lane: the low one, or the high one.
    fn half<const HIGH: bool>(self, lanes: Self::Vector) -> u64;

    /// The registers of four items, each folded into a vector; as vectors of one lane have them.
    #[inline(always)]
    fn registers<A: Algorithm>(self, [a, b, c, d]: [Self::Vector; 4]) -> [u64; 4] {
        let order = order::<A, Self>();
        [
            register::<A, _>(self, order, a),
            register::<A, _>(self, order, b),
            register::<A, _>(self, order, c),
            register::<A, _>(self, order, d),
        ]
    }

    /// The registers of four items of 64 bytes; as vectors of one lane have them.
    #[inline(always)]
    fn lines<A: Algorithm>(self, items: &[[u8; 64]; 4]) -> [u64; 4] {
        let by_16 = by::<A, _, 16>(self);
        let mut lanes = [self.first(A::INITIAL); 4];
        for (lane, item) in lanes.iter_mut().zip(items) {
            *lane = taken::<A, _>(self, self.plus(*lane, self.load(item)));
            for at in [16, 32, 48] {
                let next = taken::<A, _>(self, self.load(&item[at..]));
                *lane = self.folded(*lane, by_16, next);
            }
        }
        self.registers::<A>(lanes)
    }

    /// True if an instruction computes it.
    fn has_instruction<A: Algorithm>() -> bool;

    /// The register after eight bytes, and after one, by that instruction.
    fn word<A: Algorithm>(self, register: u64, word: u64) -> u64;
    fn byte<A: Algorithm>(self, register: u64, byte: u8) -> u64;
}

/// What is done with vectors: [`Vectors::enter`] inlines `run` into a function that may use their instructions.
pub(super) trait Task {
    type Output;

    fn run<V: Vectors>(self, vectors: V) -> Self::Output;
}

/// The order of bits that the vectors compute a CRC in.
pub(super) const fn order<A: Algorithm, V: Vectors>() -> Order {
    match A::HIGHEST_FIRST && !V::TURNS_BITS {
        true => Order::Natural,
        false => Order::Reflected,
    }
}

/// The factors that move lanes forward by `BYTES`.
#[inline(always)]
pub(super) fn by<A: Algorithm, V: Vectors, const BYTES: usize>(v: V) -> V::Vector {
    v.all(const { fold::<A>(order::<A, V>(), BYTES as u32 * 8) })
}

/// The factors that move lanes forward by so many vectors.
#[inline(always)]
pub(super) fn by_vectors<A: Algorithm, V: Vectors, const VECTORS: usize>(v: V) -> V::Vector {
    v.all(const { fold::<A>(order::<A, V>(), (VECTORS * V::BYTES) as u32 * 8) })
}

/// The bytes of a message, as the lanes have them.
#[inline(always)]
pub(super) fn taken<A: Algorithm, V: Vectors>(v: V, bytes: V::Vector) -> V::Vector {
    match A::HIGHEST_FIRST {
        true => v.turned(bytes),
        false => bytes,
    }
}

/// Lanes reduced to registers, one Barrett reduction for all: each in the half of its lane that [`Order`] has for the end of a message.
#[inline(always)]
pub(super) fn reduced<A: Algorithm, V: Vectors>(v: V, order: Order, lanes: V::Vector) -> V::Vector {
    if order == Order::Natural {
        let factors = v.all([
            Barrett::<A>::NATURAL_QUOTIENT,
            Barrett::<A>::NATURAL_FORWARD,
        ]);
        let sum = v.plus(v.product::<0x11>(lanes, factors), v.up(lanes));
        let quotient = v.plus(sum, v.product::<0x01>(sum, factors));
        let divisor = v.all([Barrett::<A>::NATURAL_DIVISOR; 2]);
        return v.plus(sum, v.product::<0x01>(quotient, divisor));
    }
    let factors = v.all([Barrett::<A>::FORWARD, Barrett::<A>::QUOTIENT]);
    let sum = v.plus(v.product::<0x00>(lanes, factors), v.down(lanes));
    let quotient = v.product::<0x10>(sum, factors);
    let divisor = v.all([Barrett::<A>::DIVISOR; 2]);
    let rest = v.plus(sum, v.product::<0x00>(quotient, divisor));
    match Barrett::<A>::HAS_LAST_TERM {
        true => v.plus(rest, v.up(quotient)),
        false => rest,
    }
}

/// The register of the lowest lane.
#[inline(always)]
pub(super) fn register<A: Algorithm, V: Vectors>(v: V, order: Order, lane: V::Vector) -> u64 {
    let lane = reduced::<A, V>(v, order, lane);
    match order {
        Order::Natural => v.half::<false>(lane),
        Order::Reflected => v.half::<true>(lane),
    }
}

/// The CRC that a register of the vectors stands for.
#[inline(always)]
pub(super) fn crc<A: Algorithm, V: Vectors>(register: u64) -> A::Crc {
    match order::<A, V>() {
        Order::Natural => A::crc_of_turned(register),
        Order::Reflected => A::crc(register),
    }
}
