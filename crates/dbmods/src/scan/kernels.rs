//! What runs on packed bytes and on vectors of a block: fused unpack-and-compare, unpack, gather, masks, sums.
//!
//! FastLanes stores 1,024 values of `width` bits in lanes of 8, 16, 32 or 64 bits so that every packed row, 128 bytes
//! at bit `row * width` of each lane, unpacks to a *contiguous* run of `1024 / lane_bits` values
//! (crate `fastlanes`, `FL_ORDER`). A kernel that walks the rows therefore writes the mask of a comparison in
//! natural order, without a transposition.
//!
//! **Width is a run-time value**, except where it decides: the usual way is one unrolled function per width, 120 of them for each
//! operation and instruction set. `VPSHRDV` (a funnel shift by a vector of counts, modulo the lane) makes the width an operand, and
//! the code of all widths is one loop. The compare alone has a function for each usual width (`avx512/range.rs`): it is most
//! of what a scan does, and finding a row's words took more instructions than comparing it.
//!
//! Each instruction set is a [`Kernels`] value. Only detection makes one, so holding it proves that the CPU can run it.
//! The portable set is the oracle of the others, and crate `fastlanes` the oracle of the portable one.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(super) mod gather;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(super) mod portable;

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

/// Where each group of eight packed rows starts, in 16 values (crate `fastlanes`).
const FL_ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

/// Rows of a block that are meant: bit `i % 64` of word `i / 64` is row `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Mask(pub(super) [u64; 16]);

/// From this many survivors of a block on, it is unpacked whole.
pub(super) const WHOLE_BLOCK_ROWS: usize = 40;

/// A block of numbers.
pub(super) type Numbers = [i64; 1024];

/// Unpacked values of a block at their lane's width, little endian; of narrow lanes only the front is used.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Lanes([u64; 1024]);

/// A set of byte values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub(super) struct ByteSet(pub(super) [u64; 4]);

/// Positions of a block's rows, with room for a vector's overhang.
pub(super) type Positions = [u16; 1024 + 64];

/// 1,024 packed values whose bytes are all there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed<'a> {
    bytes: &'a [u8],
    lane_bits: u8,
    width: u8,
}

/// A relation between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Less,
    LessOrEqual,
}

/// One instruction set's kernels. The functions are safe to call on a CPU that has the set.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    name: &'static str,
    range: unsafe fn(Packed<'_>, u64, u64, &mut Mask),
    unpack: unsafe fn(Packed<'_>, &mut Lanes),
    widen: unsafe fn(&Lanes, u8, i64, i64, &mut Numbers),
    compare: unsafe fn(Relation, &Numbers, &Numbers, &mut Mask),
    count: unsafe fn(&Mask) -> usize,
    positions: unsafe fn(&Mask, &mut Positions) -> usize,
    ask: unsafe fn(Packed<'_>, &[u16]),
    select_narrow: unsafe fn(Packed<'_>, &[u16], i32, i32, &mut Vec<i32>),
    select_wide: unsafe fn(Packed<'_>, &[u16], i64, i64, &mut Vec<i64>),
    pick_narrow: unsafe fn(&Lanes, u8, &[u16], i32, i32, &mut Vec<i32>),
    pick_wide: unsafe fn(&Lanes, u8, &[u16], i64, i64, &mut Vec<i64>),
    bytes_in_set: unsafe fn(&[u8], &ByteSet, &mut [u64]),
    rows_hit: unsafe fn(&[u64], &[[u8; 2]], &mut Mask),
    sum: unsafe fn(&Numbers, &Mask) -> i64,
    add: unsafe fn(&Numbers, &Numbers, &mut Numbers),
    subtract: unsafe fn(&Numbers, &Numbers, &mut Numbers),
    multiply: unsafe fn(&Numbers, &Numbers, &mut Numbers),
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Kernels {
    /// The best set that this CPU runs.
    pub(super) fn detect() -> &'static Self {
        Self::available()
            .last()
            .expect("the portable set is always there")
    }

    /// Every set that this CPU runs, best last.
    pub(super) fn available() -> &'static [Self] {
        static SETS: OnceLock<Vec<Kernels>> = OnceLock::new();
        SETS.get_or_init(|| {
            let mut sets = vec![portable::KERNELS];
            #[cfg(target_arch = "x86_64")]
            {
                sets.extend(avx2::detect());
                sets.extend(avx512::detect());
            }
            #[cfg(target_arch = "aarch64")]
            sets.push(neon::KERNELS);
            sets
        })
    }

    /// The name of the instruction set: `portable`, `avx2`, `avx512`, `neon`.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Which packed values lie in `lo..=lo + span`. All 1,024 are compared, padding too.
    ///
    /// `lo` and `lo + span` must fit the width; greater ones select nothing that is meant.
    pub(super) fn range(&self, packed: Packed<'_>, lo: u64, span: u64, out: &mut Mask) {
        // SAFETY: `self` exists only if the CPU has the instruction set, and `Packed` holds 128 bytes per bit of width.
        unsafe { (self.range)(packed, lo, span, out) }
    }

    /// All values at their lane's width.
    pub(super) fn unpack(&self, packed: Packed<'_>, out: &mut Lanes) {
        // SAFETY: as in `range`.
        unsafe { (self.unpack)(packed, out) }
    }

    /// `min + unit * packed` for all values, modulo 2^64.
    pub(super) fn numbers(
        &self,
        packed: Packed<'_>,
        min: i64,
        unit: i64,
        lanes: &mut Lanes,
        out: &mut Numbers,
    ) {
        self.unpack(packed, lanes);
        // SAFETY: as in `range`; `lane_bits` is one of the four.
        unsafe { (self.widen)(lanes, packed.lane_bits, min, unit, out) }
    }

    /// `left relation right`, row by row.
    pub(super) fn compare(
        &self,
        relation: Relation,
        left: &Numbers,
        right: &Numbers,
        out: &mut Mask,
    ) {
        // SAFETY: as in `range`.
        unsafe { (self.compare)(relation, left, right, out) }
    }

    /// The number of rows that are set.
    pub(super) fn count(&self, mask: &Mask) -> usize {
        // SAFETY: as in `range`.
        unsafe { (self.count)(mask) }
    }

    /// Writes the set rows' numbers, ascending; says how many.
    pub(super) fn positions(&self, mask: &Mask, out: &mut Positions) -> usize {
        // SAFETY: as in `range`.
        unsafe { (self.positions)(mask, out) }
    }

    /// Asks for the cache lines that hold the values at these positions.
    ///
    /// A block's survivors lie in many columns, each in lines and pages of its own: asked for together, their
    /// misses overlap.
    pub(super) fn ask(&self, packed: Packed<'_>, positions: &[u16]) {
        // SAFETY: as in `range`.
        unsafe { (self.ask)(packed, positions) }
    }

    /// Appends `min + unit * packed`, modulo 2^32, for each position (modulo 1,024). Few are fetched one by one; for many,
    /// the block is unpacked to `lanes`.
    pub(super) fn select_narrow(
        &self,
        packed: Packed<'_>,
        positions: &[u16],
        (min, unit): (i32, i32),
        lanes: &mut Lanes,
        out: &mut Vec<i32>,
    ) {
        // SAFETY: as in `range`; `lane_bits` is one of the four.
        unsafe {
            if positions.len() < WHOLE_BLOCK_ROWS {
                (self.select_narrow)(packed, positions, min, unit, out);
            } else {
                (self.unpack)(packed, lanes);
                (self.pick_narrow)(lanes, packed.lane_bits, positions, min, unit, out);
            }
        }
    }

    /// As [`Kernels::select_narrow`], modulo 2^64.
    pub(super) fn select_wide(
        &self,
        packed: Packed<'_>,
        positions: &[u16],
        (min, unit): (i64, i64),
        lanes: &mut Lanes,
        out: &mut Vec<i64>,
    ) {
        // SAFETY: as in `range`; `lane_bits` is one of the four.
        unsafe {
            if positions.len() < WHOLE_BLOCK_ROWS {
                (self.select_wide)(packed, positions, min, unit, out);
            } else {
                (self.unpack)(packed, lanes);
                (self.pick_wide)(lanes, packed.lane_bits, positions, min, unit, out);
            }
        }
    }

    /// Bit `i` of `out` says whether `bytes[i]` is in `set`; bits past the end are zero.
    ///
    /// # Panics
    /// If `out` is not `bytes.len() / 64` words long, rounded up.
    pub(super) fn bytes_in_set(&self, bytes: &[u8], set: &ByteSet, out: &mut [u64]) {
        assert_eq!(out.len(), bytes.len().div_ceil(64), "a bit a byte");
        // SAFETY: as in `range`; `out` has a bit for each byte.
        unsafe { (self.bytes_in_set)(bytes, set, out) }
    }

    /// The rows that a bit of `found` falls into: row `i` is at `offsets[i]..offsets[i + 1]`, little endian.
    ///
    /// # Panics
    /// If there are more than 1,024 rows, or none.
    pub(super) fn rows_hit(&self, found: &[u64], offsets: &[[u8; 2]], out: &mut Mask) {
        assert!((2..=1025).contains(&offsets.len()), "rows of a block");
        // SAFETY: as in `range`.
        unsafe { (self.rows_hit)(found, offsets, out) }
    }

    /// The sum of the set rows, modulo 2^64.
    pub(super) fn sum(&self, values: &Numbers, mask: &Mask) -> i64 {
        // SAFETY: as in `range`.
        unsafe { (self.sum)(values, mask) }
    }

    /// `left + right`, modulo 2^64.
    pub(super) fn add(&self, left: &Numbers, right: &Numbers, out: &mut Numbers) {
        // SAFETY: as in `range`.
        unsafe { (self.add)(left, right, out) }
    }

    /// `left - right`, modulo 2^64.
    pub(super) fn subtract(&self, left: &Numbers, right: &Numbers, out: &mut Numbers) {
        // SAFETY: as in `range`.
        unsafe { (self.subtract)(left, right, out) }
    }

    /// `left * right`, modulo 2^64.
    pub(super) fn multiply(&self, left: &Numbers, right: &Numbers, out: &mut Numbers) {
        // SAFETY: as in `range`.
        unsafe { (self.multiply)(left, right, out) }
    }
}

impl<'a> Packed<'a> {
    /// `None` if bytes are missing, the lane is none of the four, or the width is 0 or wider than the lane.
    pub(super) fn new(bytes: &'a [u8], lane_bits: u8, width: u8) -> Option<Self> {
        let sound = matches!(lane_bits, 8 | 16 | 32 | 64)
            && (1..=lane_bits).contains(&width)
            && bytes.len() >= 128 * usize::from(width);
        sound.then_some(Self {
            bytes,
            lane_bits,
            width,
        })
    }

    /// Bits of a lane.
    pub(super) fn lane_bits(&self) -> u8 {
        self.lane_bits
    }

    /// The largest value that fits the width.
    pub(super) fn max(&self) -> u64 {
        u64::MAX >> (64 - self.width)
    }
}

impl Mask {
    /// No row.
    pub(super) const NONE: Self = Self([0; 16]);

    /// The first `rows` rows, at most 1,024.
    pub(super) fn first(rows: usize) -> Self {
        if rows >= 1024 {
            return Self([u64::MAX; 16]);
        }
        let mut words = [0; 16];
        for (i, word) in words.iter_mut().enumerate() {
            *word = match rows.saturating_sub(i * 64) {
                0 => 0,
                n if n >= 64 => u64::MAX,
                n => u64::MAX >> (64 - n),
            };
        }
        Self(words)
    }

    /// Returns true if there is no row.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    /// Keeps the rows that are also in `other`.
    pub(super) fn and(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    /// Drops the rows that are in `other`.
    pub(super) fn and_not(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= !other;
        }
    }

    /// Adds the rows of `other`.
    pub(super) fn or(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    /// Turns every row over.
    pub(super) fn not(&mut self) {
        for word in &mut self.0 {
            *word = !*word;
        }
    }

    /// Adds row `row`.
    pub(super) fn insert(&mut self, row: usize) {
        self.0[row / 64] |= 1 << (row % 64);
    }

    /// As [`Mask::for_each`], up to the first error.
    pub(super) fn try_for_each<E>(
        &self,
        mut each: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        for (i, &word) in self.0.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                each(i * 64 + word.trailing_zeros() as usize)?;
                word &= word - 1;
            }
        }
        Ok(())
    }

    /// Calls `each` with every row, ascending.
    #[inline]
    pub(super) fn for_each(&self, mut each: impl FnMut(usize)) {
        for (i, &word) in self.0.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                each(i * 64 + word.trailing_zeros() as usize);
                word &= word - 1;
            }
        }
    }
}

impl Lanes {
    /// Zeros.
    pub(super) fn new() -> Box<Self> {
        Box::new(Self([0; 1024]))
    }

    /// The first 1,024 bytes: the values of 8-bit lanes.
    pub(super) fn bytes(&self) -> &[u8; 1024] {
        // SAFETY: 8,192 initialised bytes, of which the first 1,024 are lent for the borrow of `self`.
        unsafe { &*self.0.as_ptr().cast() }
    }

    /// The first 1,024 16-bit values.
    pub(super) fn words(&self) -> &[u16; 1024] {
        // SAFETY: 8,192 initialised bytes, aligned to 64, lent for the borrow of `self`.
        unsafe { &*self.0.as_ptr().cast() }
    }

    /// 1,024 32-bit values.
    pub(super) fn doublewords(&self) -> &[u32; 1024] {
        // SAFETY: 8,192 initialised bytes, aligned to 64, lent for the borrow of `self`.
        unsafe { &*self.0.as_ptr().cast() }
    }

    /// 1,024 64-bit values.
    pub(super) fn quadwords(&self) -> &[u64; 1024] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8; 1024] {
        // SAFETY: as in `bytes`, and `self` is borrowed uniquely.
        unsafe { &mut *self.0.as_mut_ptr().cast() }
    }

    fn words_mut(&mut self) -> &mut [u16; 1024] {
        // SAFETY: as in `words`, and `self` is borrowed uniquely.
        unsafe { &mut *self.0.as_mut_ptr().cast() }
    }

    fn doublewords_mut(&mut self) -> &mut [u32; 1024] {
        // SAFETY: as in `doublewords`, and `self` is borrowed uniquely.
        unsafe { &mut *self.0.as_mut_ptr().cast() }
    }
}

impl ByteSet {
    /// No byte.
    pub(super) const EMPTY: Self = Self([0; 4]);

    /// Adds `byte`.
    pub(super) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }

    /// Returns true if `byte` is in it.
    pub(super) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }
}
