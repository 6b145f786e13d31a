//! The operations on vectors of which the checksum's kernel is made, for every instruction set.

use super::{BLOCK_BYTES, GROUP};

/// A line is 64 bytes, in as many vectors as the instruction set needs: bytes as they were read, or sums of 32 bits in sixteen lanes.
///
/// The value is the proof that the instructions are there. Every method is inlined into [`Lines::enter`], where they may be used.
pub(crate) trait Lines: Copy {
    /// A line.
    type Line: Copy;

    /// The amount by which a sum comes out too low for each line that was added: words count as signed where the instruction
    /// set has no other product.
    const LOW: u32;

    /// Runs `task` in a function that may use the instructions.
    fn enter<T: Task>(self, task: T) -> T::Output;

    /// Lanes of zero.
    fn zero(self) -> Self::Line;

    fn load(self, bytes: &[u8; 64]) -> Self::Line;
    fn store(self, line: Self::Line, to: &mut [u8; 64]);
    fn lanes(self, lanes: &[u32; GROUP]) -> Self::Line;

    /// The 16-bit words of `bytes`, added in pairs to the lanes of `sum`.
    fn plus(self, sum: Self::Line, bytes: Self::Line) -> Self::Line;

    /// Lane by lane.
    fn add(self, a: Self::Line, b: Self::Line) -> Self::Line;

    /// All lanes together.
    fn total(self, sum: Self::Line) -> u32;

    /// The high half of each lane added to its low one.
    fn folded(self, sums: Self::Line) -> Self::Line;

    /// Each lane shifted to the left by as many bits as [`Lines::long`] said.
    #[inline(always)]
    fn shifted(self, sums: Self::Line, _by: &[u32; GROUP]) -> Self::Line {
        sums
    }

    /// The complements of lanes of at most 16 bits.
    fn complements(self, sums: Self::Line) -> [u16; GROUP];

    /// The halves of `a` added in the low half, those of `b` in the high one.
    fn join_halves(self, a: Self::Line, b: Self::Line) -> Self::Line;

    /// The quarters of each half added: of `a` in its first, of `b` in its second.
    fn join_quarters(self, a: Self::Line, b: Self::Line) -> Self::Line;

    /// The lanes of each quarter added: of each line in a lane of its own.
    fn join_lanes(self, lines: [Self::Line; 4]) -> Self::Line;

    /// The sums of sixteen items of at most 64 bytes, the longest `longest`.
    fn short(self, items: &[&[u8]; GROUP], longest: usize) -> Self::Line;

    /// Adds what lies behind the last whole line of `block`; with `COPY` also writes it to the end of `dst`, which is as long.
    /// Gives the sum, and the amount by which it came out too low.
    fn rest<const COPY: bool>(
        self,
        sum: Self::Line,
        block: &[u8],
        dst: &mut [u8],
    ) -> (Self::Line, u32);

    /// As [`Read::of`], of a block that is long enough for lines of the cache to count.
    #[inline(always)]
    fn long<const COPY: bool>(self, block: &[u8], dst: &mut [u8]) -> Read<Self::Line> {
        Read::by_lines::<_, COPY>(self, block, dst)
    }

    /// Writes the start of `from` to `to`, which is not longer.
    #[inline(always)]
    fn put(self, from: &[u8], to: &mut [u8]) {
        to.copy_from_slice(&from[..to.len()]);
    }

    /// The sums of items of 20 bytes, sixteen of which lie in `items`.
    #[inline(always)]
    fn headers_of_20(self, items: &[u8; GROUP * 20]) -> Self::Line {
        self.headers(items)
    }

    /// The same of 40 bytes.
    #[inline(always)]
    fn headers_of_40(self, items: &[u8; GROUP * 40]) -> Self::Line {
        self.headers(items)
    }

    /// The same of sixteen items of a length.
    #[inline(always)]
    fn headers<const BYTES: usize>(self, items: &[u8; BYTES]) -> Self::Line {
        let len = BYTES / GROUP;
        let mut group: [&[u8]; GROUP] = [&[]; GROUP];
        for (i, item) in group.iter_mut().enumerate() {
            *item = &items[i * len..(i + 1) * len];
        }
        self.short(&group, len)
    }
}

/// What is done with lines: [`Lines::enter`] inlines `run` into a function that may use their instructions.
pub(crate) trait Task {
    type Output;

    fn run<L: Lines>(self, lines: L) -> Self::Output;
}

/// A block, added up.
#[derive(Clone, Copy)]
pub(crate) struct Read<L> {
    /// The sum, spread over the lanes, less `low`.
    pub(super) lanes: L,
    pub(super) low: u32,
    /// Bits by which the sum must be shifted to the left: zero, or eight if words were read across.
    pub(super) shift: u32,
}

/// From this length on it may count how bytes lie in lines of the cache.
const LONG_BYTES: usize = 512;

impl<L: Copy> Read<L> {
    /// Adds up at most [`BLOCK_BYTES`]; with `COPY` also copies them to `dst`, which is as long.
    #[inline(always)]
    pub(super) fn of<S: Lines<Line = L>, const COPY: bool>(
        lines: S,
        block: &[u8],
        dst: &mut [u8],
    ) -> Self {
        if COPY || block.len() >= LONG_BYTES {
            lines.long::<COPY>(block, dst)
        } else {
            Self::by_lines::<_, false>(lines, block, &mut [])
        }
    }

    /// The bytes as they lie. Masks cost more than the lines that are crossed.
    #[inline(always)]
    fn by_lines<S: Lines<Line = L>, const COPY: bool>(
        lines: S,
        block: &[u8],
        dst: &mut [u8],
    ) -> Self {
        debug_assert!(block.len() <= BLOCK_BYTES);
        let (whole, rest) = block.as_chunks::<64>();
        let (pairs, odd) = whole.as_chunks::<2>();
        let (mut a, mut b) = (lines.zero(), lines.zero());
        if COPY {
            assert_eq!(block.len(), dst.len());
            let (whole, _) = dst.as_chunks_mut::<64>();
            for (from, to) in pairs.iter().zip(whole.as_chunks_mut::<2>().0) {
                let (first, second) = (lines.load(&from[0]), lines.load(&from[1]));
                lines.store(first, &mut to[0]);
                lines.store(second, &mut to[1]);
                a = lines.plus(a, first);
                b = lines.plus(b, second);
            }
        } else {
            for [first, second] in pairs {
                a = lines.plus(a, lines.load(first));
                b = lines.plus(b, lines.load(second));
            }
        }
        if let [line] = odd {
            let line = lines.load(line);
            if COPY {
                let at = pairs.len() * 128;
                lines.store(line, (&mut dst[at..at + 64]).try_into().expect("64 bytes"));
            }
            a = lines.plus(a, line);
        }
        let mut low = whole.len() as u32 * S::LOW;
        if !rest.is_empty() {
            let (sum, rest_low) = lines.rest::<COPY>(b, block, dst);
            b = sum;
            low = low.wrapping_add(rest_low);
        }
        Self {
            lanes: lines.add(a, b),
            low,
            shift: 0,
        }
    }

    /// The sum, its carries not added back in.
    #[inline(always)]
    pub(super) fn sum<S: Lines<Line = L>>(self, lines: S) -> u64 {
        // Multiplying by 256 swaps the bytes of a sum whose carries are added back in.
        let sum = lines.total(self.lanes).wrapping_add(self.low);
        u64::from(sum) << self.shift
    }
}
