//! Vectors of 128 bits, quarters of a line: what lies behind the last whole line, and short items, without masks.

use super::GROUP;
use super::kernel;
use super::lines::{Lines, Task};
use crate::part::part;

/// The operations on quarters of an instruction set; a value is the proof that its instructions are there.
pub(crate) trait Quarters: Copy {
    type Quarter: Copy;

    /// As [`Lines::LOW`], of a quarter.
    const LOW: u32;

    fn none(self) -> Self::Quarter;
    fn quarter(self, bytes: &[u8; 16]) -> Self::Quarter;
    fn store_quarter(self, quarter: Self::Quarter, to: &mut [u8; 16]);

    /// The 16-bit words of `bytes`, added in pairs to the lanes of `sum`.
    fn plus_quarter(self, sum: Self::Quarter, bytes: Self::Quarter) -> Self::Quarter;

    /// The byte at each place that `order` names, zero where it names none.
    fn picked(self, bytes: Self::Quarter, order: &[u8; 16]) -> Self::Quarter;
}

/// The order that takes the last *n* bytes of a quarter to its start begins at 16 − *n*. No place has the number 128.
static LAST: [u8; 32] = {
    let mut order = [128; 32];
    let mut i = 0;
    while i < 16 {
        order[i] = i as u8;
        i += 1;
    }
    order
};

/// The sum of the words of `rest`, with which `item` ends.
///
/// Fewer than sixteen are read with those before them, which are shifted out.
#[inline(always)]
fn sum_of<Q: Quarters>(quarters: Q, item: &[u8], rest: &[u8]) -> Q::Quarter {
    let mut sum = quarters.none();
    let Some(last) = item.last_chunk::<16>() else {
        return match rest {
            [] => sum,
            rest => quarters.plus_quarter(sum, quarters.quarter(&part(rest).to_le_bytes())),
        };
    };
    let (whole, rest) = rest.as_chunks::<16>();
    for quarter in whole {
        sum = quarters.plus_quarter(sum, quarters.quarter(quarter));
    }
    if !rest.is_empty() {
        let order = LAST[16 - rest.len()..].first_chunk().expect("16 bytes");
        sum = quarters.plus_quarter(sum, quarters.picked(quarters.quarter(last), order));
    }
    sum
}

/// The amount by which a sum of quarters came out too low.
#[inline(always)]
fn low<Q: Quarters>(_quarters: Q, len: usize) -> u32 {
    (len.div_ceil(16) as u32).wrapping_mul(Q::LOW)
}

/// Instruction sets without masks.
pub(super) trait Narrow: Lines {
    type Quarters: Quarters;

    fn quarters(self) -> Self::Quarters;
    fn line(self, quarters: [<Self::Quarters as Quarters>::Quarter; 4]) -> Self::Line;

    /// The sums of four items, a quarter each, of `QUARTERS` quarters: the last has bytes of the one before, and `order` shifts
    /// them out.
    #[inline(always)]
    fn four<const QUARTERS: usize>(self, items: [&[u8]; 4], order: &[u8; 16]) -> Self::Line {
        let quarters = self.quarters();
        let mut sums = [quarters.none(); 4];
        for (sum, item) in sums.iter_mut().zip(items) {
            let last = quarters.quarter(quarter_of::<QUARTERS>(item, QUARTERS - 1));
            *sum = quarters.plus_quarter(*sum, quarters.picked(last, order));
            for i in 0..QUARTERS - 1 {
                let quarter = quarters.quarter(quarter_of::<QUARTERS>(item, i));
                *sum = quarters.plus_quarter(*sum, quarter);
            }
        }
        self.line(sums)
    }
}

/// Quarter `i` of an item of `QUARTERS`: the last ends where the item does.
#[inline(always)]
pub(super) fn quarter_of<const QUARTERS: usize>(item: &[u8], i: usize) -> &[u8; 16] {
    let quarter = if i == QUARTERS - 1 {
        item.last_chunk()
    } else {
        item[16 * i..].first_chunk()
    };
    quarter.expect("16 bytes")
}

/// [`Lines::short`].
#[inline(always)]
pub(super) fn short<N: Narrow>(narrow: N, items: &[&[u8]; GROUP], longest: usize) -> N::Line {
    let mut shortest = longest;
    for item in items {
        shortest = shortest.min(item.len());
    }
    match longest {
        _ if shortest < longest => mixed(narrow, items),
        0..16 => mixed(narrow, items),
        16 => equal::<_, 1>(narrow, items, longest),
        17..=32 => equal::<_, 2>(narrow, items, longest),
        33..=48 => equal::<_, 3>(narrow, items, longest),
        49..=63 => equal::<_, 4>(narrow, items, longest),
        _ => kernel::whole(narrow, items),
    }
}

/// Items of `len` bytes each, in `QUARTERS` quarters, the last with bytes of the one before that are shifted out.
#[inline(always)]
fn equal<N: Narrow, const QUARTERS: usize>(
    narrow: N,
    items: &[&[u8]; GROUP],
    len: usize,
) -> N::Line {
    assert!(len >= 16 && len > 16 * (QUARTERS - 1) && len <= 16 * QUARTERS);
    let order = LAST[16 * QUARTERS - len..].first_chunk().expect("16 bytes");
    let mut sums = [narrow.zero(); 4];
    for i in 0..4 {
        let mut four = [items[i], items[i + 4], items[i + 8], items[i + 12]];
        for item in &mut four {
            *item = &item[..len];
        }
        sums[i] = narrow.four::<QUARTERS>(four, order);
    }
    let low = low(narrow.quarters(), len);
    narrow.add(narrow.join_lanes(sums), narrow.lanes(&[low; GROUP]))
}

/// Items of any length up to 64 bytes.
#[inline(always)]
fn mixed<N: Narrow>(narrow: N, items: &[&[u8]; GROUP]) -> N::Line {
    let mut sums = [narrow.zero(); 4];
    let mut lows = [0; GROUP];
    for i in 0..4 {
        let mut of_items = [narrow.quarters().none(); 4];
        for j in 0..4 {
            let item = items[i + 4 * j];
            of_items[j] = sum_of(narrow.quarters(), item, item);
            lows[i + 4 * j] = low(narrow.quarters(), item.len());
        }
        sums[i] = narrow.line(of_items);
    }
    narrow.add(narrow.join_lanes(sums), narrow.lanes(&lows))
}

/// [`Lines::rest`].
#[inline(always)]
pub(super) fn rest<N: Narrow, const COPY: bool>(
    narrow: N,
    sum: N::Line,
    block: &[u8],
    dst: &mut [u8],
) -> (N::Line, u32) {
    let quarters = narrow.quarters();
    let rest = block.as_chunks::<64>().1;
    if COPY {
        let (_, to) = dst.as_chunks_mut::<64>();
        let from = rest.as_chunks::<16>().0;
        for (from, to) in from.iter().zip(to.as_chunks_mut::<16>().0) {
            quarters.store_quarter(quarters.quarter(from), to);
        }
        match (block.last_chunk(), dst.last_chunk_mut()) {
            (Some(from), Some(to)) => quarters.store_quarter(quarters.quarter(from), to),
            _ => dst.copy_from_slice(block),
        }
    }
    let none = quarters.none();
    let rest_sum = narrow.line([sum_of(quarters, block, rest), none, none, none]);
    (narrow.add(sum, rest_sum), low(quarters, rest.len()))
}

/// Lines of four quarters each.
#[derive(Clone, Copy)]
pub(crate) struct Fours<Q>(Q);

/// The operations on quarters that lines of four are made of.
pub(crate) trait OfFour: Quarters {
    /// As [`Lines::enter`]; the task gets [`Fours`].
    fn enter_fours<T: Task>(self, task: T) -> T::Output;

    /// Lane by lane.
    fn add_quarters(self, a: Self::Quarter, b: Self::Quarter) -> Self::Quarter;

    /// The four lanes of each added: of each in a lane of its own.
    fn join(self, quarters: [Self::Quarter; 4]) -> Self::Quarter;

    /// All lanes together.
    fn total_of_quarter(self, sum: Self::Quarter) -> u32;

    /// The high half of each lane added to its low one.
    fn folded_quarter(self, sums: Self::Quarter) -> Self::Quarter;

    /// The complements of lanes of at most 16 bits.
    fn complements_of_quarter(self, sums: Self::Quarter) -> [u16; 4];
}

impl<Q: OfFour> Fours<Q> {
    pub(crate) fn new(quarters: Q) -> Self {
        Self(quarters)
    }
}

impl<Q: OfFour> Narrow for Fours<Q> {
    type Quarters = Q;

    #[inline(always)]
    fn quarters(self) -> Q {
        self.0
    }

    #[inline(always)]
    fn line(self, quarters: [Q::Quarter; 4]) -> Self::Line {
        quarters
    }
}

impl<Q: OfFour> Lines for Fours<Q> {
    type Line = [Q::Quarter; 4];

    const LOW: u32 = 4 * Q::LOW;

    #[inline(always)]
    fn enter<T: Task>(self, task: T) -> T::Output {
        self.0.enter_fours(task)
    }

    #[inline(always)]
    fn zero(self) -> Self::Line {
        [self.0.none(); 4]
    }

    #[inline(always)]
    fn load(self, bytes: &[u8; 64]) -> Self::Line {
        let mut line = self.zero();
        for (quarter, bytes) in line.iter_mut().zip(bytes.as_chunks().0) {
            *quarter = self.0.quarter(bytes);
        }
        line
    }

    #[inline(always)]
    fn store(self, line: Self::Line, to: &mut [u8; 64]) {
        for (quarter, to) in line.into_iter().zip(to.as_chunks_mut().0) {
            self.0.store_quarter(quarter, to);
        }
    }

    #[inline(always)]
    fn lanes(self, lanes: &[u32; GROUP]) -> Self::Line {
        let mut line = self.zero();
        for (quarter, [a, b, c, d]) in line.iter_mut().zip(lanes.as_chunks().0) {
            let bits = [a, b, c, d].map(|lane| u128::from(*lane));
            let bits = bits[0] | bits[1] << 32 | bits[2] << 64 | bits[3] << 96;
            *quarter = self.0.quarter(&bits.to_le_bytes());
        }
        line
    }

    #[inline(always)]
    fn plus(self, sum: Self::Line, bytes: Self::Line) -> Self::Line {
        let mut plus = sum;
        for i in 0..4 {
            plus[i] = self.0.plus_quarter(sum[i], bytes[i]);
        }
        plus
    }

    #[inline(always)]
    fn add(self, a: Self::Line, b: Self::Line) -> Self::Line {
        let mut sums = a;
        for i in 0..4 {
            sums[i] = self.0.add_quarters(a[i], b[i]);
        }
        sums
    }

    #[inline(always)]
    fn total(self, [a, b, c, d]: Self::Line) -> u32 {
        let (low, high) = (self.0.add_quarters(a, b), self.0.add_quarters(c, d));
        self.0.total_of_quarter(self.0.add_quarters(low, high))
    }

    #[inline(always)]
    fn folded(self, sums: Self::Line) -> Self::Line {
        let mut folded = sums;
        for i in 0..4 {
            folded[i] = self.0.folded_quarter(sums[i]);
        }
        folded
    }

    #[inline(always)]
    fn complements(self, sums: Self::Line) -> [u16; GROUP] {
        let mut complements = [0; GROUP];
        for (four, sums) in complements.as_chunks_mut().0.iter_mut().zip(sums) {
            *four = self.0.complements_of_quarter(sums);
        }
        complements
    }

    #[inline(always)]
    fn join_halves(self, [a0, a1, a2, a3]: Self::Line, [b0, b1, b2, b3]: Self::Line) -> Self::Line {
        [
            self.0.add_quarters(a0, a2),
            self.0.add_quarters(a1, a3),
            self.0.add_quarters(b0, b2),
            self.0.add_quarters(b1, b3),
        ]
    }

    #[inline(always)]
    fn join_quarters(
        self,
        [a0, a1, a2, a3]: Self::Line,
        [b0, b1, b2, b3]: Self::Line,
    ) -> Self::Line {
        [
            self.0.add_quarters(a0, a1),
            self.0.add_quarters(b0, b1),
            self.0.add_quarters(a2, a3),
            self.0.add_quarters(b2, b3),
        ]
    }

    #[inline(always)]
    fn join_lanes(self, lines: [Self::Line; 4]) -> Self::Line {
        let mut joined = lines[0];
        for i in 0..4 {
            joined[i] = self
                .0
                .join([lines[0][i], lines[1][i], lines[2][i], lines[3][i]]);
        }
        joined
    }

    #[inline(always)]
    fn short(self, items: &[&[u8]; GROUP], longest: usize) -> Self::Line {
        short(self, items, longest)
    }

    #[inline(always)]
    fn rest<const COPY: bool>(
        self,
        sum: Self::Line,
        block: &[u8],
        dst: &mut [u8],
    ) -> (Self::Line, u32) {
        rest::<_, COPY>(self, sum, block, dst)
    }
}
