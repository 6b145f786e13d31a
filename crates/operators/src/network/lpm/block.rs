//! Blocks: what becomes of the 256 values of the next byte of an address, in as few bytes as that takes.
//!
//! Values that go the same way and lie side by side are a run. A block stores, for each run, its last value (a byte) and
//! where it leads (a code of one, two or four bytes): all ends first, then all codes, together within one cache line. A
//! value's run is as many runs in as there are ends below the value, which is one vector comparison. Where there are too
//! many runs for a line, the values are split into equal parts, one line each; where that needs more than a plain table,
//! it is a plain table: 256 parts of one code. So every kind of block is read the same way, from one line:
//!
//! ```text
//! part  = start + (value >> shift) * stride
//! run   = how many of the `ends` bytes at `part` are below `value`
//! code  = `width` bytes at part + ends + run * width
//! ```
//!
//! A code is that of a hop, or, counted down from the highest of its width, the number of a child: where the next byte of
//! the address is looked up. The entries of the children stand before the parts, the first one last.

use super::pool::{GRAIN_BYTES, Pool};
use super::values::Values;

/// The way to a block: its kind in the low bits, and the start of its first part, in grains of the pool.
pub(super) type Entry = u32;

/// Bits of an entry that say the kind.
pub(super) const KIND_BITS: u32 = 5;

/// The layout of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Bytes of a code, as a power of two: 0, 1, 2.
    pub(super) width_log2: u8,
    /// Bytes of a part, as a power of two: 3 to 6, or in a plain table those of a code.
    pub(super) stride_log2: u8,
    /// The shift by which a value gives its part: 8 if there is only one.
    pub(super) shift: u8,
    /// Room for ends in a part; none in a plain table.
    pub(super) ends: u8,
}

/// All kinds there are; of one width the smaller first.
pub(super) const KINDS: [Kind; 19] = [
    Kind::parts(0, 3, 1),
    Kind::parts(0, 4, 1),
    Kind::parts(0, 5, 1),
    Kind::parts(0, 6, 1),
    Kind::parts(0, 6, 2),
    Kind::plain(0),
    Kind::parts(1, 4, 1),
    Kind::parts(1, 5, 1),
    Kind::parts(1, 6, 1),
    Kind::parts(1, 6, 2),
    Kind::parts(1, 6, 4),
    Kind::plain(1),
    Kind::parts(2, 4, 1),
    Kind::parts(2, 5, 1),
    Kind::parts(2, 6, 1),
    Kind::parts(2, 6, 2),
    Kind::parts(2, 6, 4),
    Kind::parts(2, 6, 8),
    Kind::plain(2),
];

/// The target of a value of the next byte: a hop by its code, or [`child`].
pub(super) type Leaf = u32;

/// The leaf that leads to a block's child of this number, from 0 to 255. Cut to the width of a code, it is that code.
pub(super) fn child(number: usize) -> Leaf {
    !(number as Leaf)
}

/// The children that a block can have: no code of a hop is so high.
const CHILDREN_MAX: u32 = 256;

impl Kind {
    const fn parts(width_log2: u8, stride_log2: u8, parts: u8) -> Self {
        Self {
            width_log2,
            stride_log2,
            shift: 8 - parts.ilog2() as u8,
            ends: ((1u32 << stride_log2) / (1 + (1 << width_log2))) as u8,
        }
    }

    const fn plain(width_log2: u8) -> Self {
        Self {
            width_log2,
            stride_log2: width_log2,
            shift: 0,
            ends: 0,
        }
    }

    /// The kind of the block that `entry` leads to.
    pub(super) fn of(entry: Entry) -> &'static Self {
        &KINDS[(entry & ((1 << KIND_BITS) - 1)) as usize]
    }

    /// Bytes of all parts.
    fn bytes(self) -> usize {
        (256 >> self.shift) << self.stride_log2
    }

    /// The highest code, and that of the first child.
    pub(super) const fn highest(self) -> u32 {
        u32::MAX >> (32 - (8 << self.width_log2))
    }

    /// Codes from here on are children's.
    pub(super) const fn child_min(self) -> u32 {
        match self.width_log2 {
            0 => 0xc0,
            width_log2 => (u32::MAX >> (32 - (8 << width_log2))) - 0xff,
        }
    }

    /// Whether these runs fit, of which each ends at one of the values.
    fn holds(self, runs: &Runs) -> bool {
        let ends = usize::from(self.ends);
        match self.shift {
            0 => true,
            8 => runs.len() <= ends,
            // A run that goes on in the next part is one of that part too.
            shift => (0..256usize >> shift).all(|part| {
                let last = (part << shift) + (1 << shift) - 1;
                let run_of =
                    |value: usize| runs.partition_point(|(end, _)| usize::from(*end) < value);
                run_of(last) - run_of(part << shift) < ends
            }),
        }
    }

    /// The number of the smallest layout that holds these runs and `children` children.
    fn smallest(runs: &Runs, children: usize) -> usize {
        let hops = runs.iter().map(|(_, leaf)| *leaf);
        let hop_max = hops
            .filter(|leaf| *leaf <= !CHILDREN_MAX)
            .max()
            .unwrap_or(0);
        let is_wide_enough = |kind: Self| {
            let children_max = kind.highest() - kind.child_min() + 1;
            hop_max < kind.child_min() && children <= children_max as usize
        };
        let fits = |kind: &Kind| is_wide_enough(*kind) && kind.holds(runs);
        KINDS
            .iter()
            .position(fits)
            .expect("the widest plain table holds all")
    }
}

/// The last values of leaves that are alike and side by side, and those leaves.
struct Runs {
    runs: [(u8, Leaf); 256],
    len: usize,
}

impl Runs {
    fn new() -> Self {
        Self {
            runs: [(0, 0); 256],
            len: 0,
        }
    }

    /// The runs of a block.
    fn read(pool: &[u8], entry: Entry) -> Self {
        let kind = Kind::of(entry);
        let ends = usize::from(kind.ends);
        let mut runs = Self::new();
        for part in 0..256 >> kind.shift {
            let at = start(entry) + (part << kind.stride_log2);
            let last = ((part + 1) << kind.shift) - 1;
            for run in 0.. {
                // The last run of a part may end behind it, and a plain table has no ends.
                let end = match ends {
                    0 => last,
                    _ => usize::from(pool[at + run]).min(last),
                };
                let code = code(pool, at + ends + (run << kind.width_log2), kind);
                let leaf = match code < kind.child_min() {
                    true => code,
                    false => child((kind.highest() - code) as usize),
                };
                runs.push(end as u8, leaf);
                if end == last {
                    break;
                }
            }
        }
        runs
    }

    /// Appends a run, which may go on the one before it.
    fn push(&mut self, end: u8, leaf: Leaf) {
        match self.runs[..self.len].last_mut() {
            Some((last, same)) if *same == leaf => *last = end,
            _ => {
                self.runs[self.len] = (end, leaf);
                self.len += 1;
            }
        }
    }

    /// With `leaf` for these values.
    fn repainted(&self, values: Values, leaf: Leaf) -> Self {
        let mut runs = Self::new();
        let mut values = values.runs().peekable();
        let mut at = 0;
        for &(end, old) in &**self {
            let end = usize::from(end);
            while at <= end {
                let Some((first, last)) = values.peek() else {
                    runs.push(end as u8, old);
                    break;
                };
                let (first, last) = (usize::from(*first), usize::from(*last));
                let (stop, shown) = match at < first {
                    true => (end.min(first - 1), old),
                    false => (end.min(last), leaf),
                };
                runs.push(stop as u8, shown);
                if stop == last {
                    values.next();
                }
                at = stop + 1;
            }
            at = end + 1;
        }
        runs
    }

    fn of(leaves: &[Leaf; 256]) -> Self {
        let mut runs = Self::new();
        for (value, leaf) in leaves.iter().enumerate() {
            // The last one of a run stays.
            runs.runs[runs.len] = (value as u8, *leaf);
            runs.len += usize::from(leaves.get(value + 1) != Some(leaf));
        }
        runs
    }
}

impl std::ops::Deref for Runs {
    type Target = [(u8, Leaf)];

    fn deref(&self) -> &[(u8, Leaf)] {
        &self.runs[..self.len]
    }
}

/// Writes a block of these leaves, with its children's entries, into the pool.
pub(super) fn write(pool: &mut Pool, leaves: &[Leaf; 256], children: &[Entry]) -> Entry {
    write_runs(pool, &Runs::of(leaves), children)
}

/// Sends these values of a block with `children` children to `leaf`; none of them leads to a child. A plain table stays one if
/// it `may_stay`.
pub(super) fn repaint(
    pool: &mut Pool,
    entry: Entry,
    children: usize,
    values: Values,
    leaf: Leaf,
    may_stay: bool,
) -> Entry {
    let kind = Kind::of(entry);
    if kind.shift == 0 && may_stay && leaf < kind.child_min() {
        let width = 1 << kind.width_log2;
        for (first, last) in values.runs() {
            let (first, last) = (usize::from(first), usize::from(last));
            let at = start(entry) + first * width;
            let codes = pool.bytes_mut(at, (last - first + 1) * width);
            for code in codes.chunks_exact_mut(width) {
                code.copy_from_slice(&leaf.to_le_bytes()[..width]);
            }
        }
        return entry;
    }
    let runs = Runs::read(pool.bytes(), entry).repainted(values, leaf);
    let mut entries = [0; 256];
    for (number, child) in entries[..children].iter_mut().enumerate() {
        *child = word(pool.bytes(), start(entry) - 4 * (number + 1));
    }
    release(pool, entry, children);
    write_runs(pool, &runs, &entries[..children])
}

fn write_runs(pool: &mut Pool, runs: &Runs, children: &[Entry]) -> Entry {
    let number = Kind::smallest(runs, children.len());
    let kind = KINDS[number];
    let (bytes, head) = (kind.bytes(), children.len() * 4);
    let (start, room) = pool.take(bytes + head);
    // The parts end where the room does, so that none crosses a cache line.
    let at = start + room - bytes;
    let chunk = pool.bytes_mut(start, room);
    let (before, parts) = chunk.split_at_mut(room - bytes);
    for (slot, entry) in before.rchunks_exact_mut(4).zip(children) {
        slot.copy_from_slice(&entry.to_le_bytes());
    }
    if kind.shift == 8 {
        write_part(kind, parts, runs);
    } else {
        for (number, part) in parts.chunks_mut(1 << kind.stride_log2).enumerate() {
            let (first, last) = (number << kind.shift, ((number + 1) << kind.shift) - 1);
            let run_of = |value: usize| runs.partition_point(|(end, _)| usize::from(*end) < value);
            write_part(kind, part, &runs[run_of(first)..=run_of(last)]);
        }
    }
    (at / GRAIN_BYTES) as Entry * (1 << KIND_BITS) + number as Entry
}

/// Writes a part that has these runs. The last may end behind the part's values: none of them is above its end then.
fn write_part(kind: Kind, part: &mut [u8], runs: &[(u8, Leaf)]) {
    let (ends, codes) = part.split_at_mut(usize::from(kind.ends));
    // No value is above the ends that are not needed.
    ends.fill(0xff);
    for (slot, (end, _)) in ends.iter_mut().zip(runs) {
        *slot = *end;
    }
    let width = 1 << kind.width_log2;
    for (slot, (_, leaf)) in codes.chunks_exact_mut(width).zip(runs) {
        slot.copy_from_slice(&leaf.to_le_bytes()[..width]);
    }
}

/// Gives back the room of a block with `children` children.
pub(super) fn release(pool: &mut Pool, entry: Entry, children: usize) {
    let bytes = Kind::of(entry).bytes();
    let end = start(entry) + bytes;
    pool.give_back(end, bytes + children * 4);
}

/// The start of the first part of a block.
#[inline]
pub(super) fn start(entry: Entry) -> usize {
    (entry >> KIND_BITS) as usize * GRAIN_BYTES
}

/// Says where a child's block is now.
pub(super) fn set_child(pool: &mut Pool, entry: Entry, child: usize, to: Entry) {
    let at = start(entry) - 4 * (child + 1);
    pool.bytes_mut(at, 4).copy_from_slice(&to.to_le_bytes());
}

/// The target of `value` from `entry`: a hop's code, or a child's entry.
#[inline]
pub(super) fn find(pool: &[u8], entry: Entry, value: u8) -> Result<u32, Entry> {
    let kind = Kind::of(entry);
    let start = start(entry);
    let part = start + ((usize::from(value) >> kind.shift) << kind.stride_log2);
    let ends = &pool[part..part + usize::from(kind.ends)];
    let run = ends.iter().filter(|end| **end < value).count();
    let code = code(pool, part + ends.len() + (run << kind.width_log2), kind);
    if code < kind.child_min() {
        Ok(code)
    } else {
        let child = (kind.highest() - code) as usize;
        Err(word(pool, start - 4 * (child + 1)))
    }
}

#[inline]
fn code(pool: &[u8], at: usize, kind: &Kind) -> u32 {
    match kind.width_log2 {
        0 => u32::from(pool[at]),
        1 => u32::from(u16::from_le_bytes([pool[at], pool[at + 1]])),
        _ => word(pool, at),
    }
}

#[inline]
fn word(pool: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(pool[at..at + 4].try_into().expect("four bytes"))
}
