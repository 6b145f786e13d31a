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

/// What leads to a block: its kind in the low bits, and where its first part starts, in grains of the pool.
pub(super) type Entry = u32;

/// Bits of an entry that say the kind.
pub(super) const KIND_BITS: u32 = 5;

/// How a block is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Bytes of a code, as a power of two: 0, 1, 2.
    pub(super) width_log2: u8,
    /// Bytes of a part, as a power of two: 3 to 6, or in a plain table those of a code.
    pub(super) stride_log2: u8,
    /// How far a value is shifted to say its part: 8 if there is only one.
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

/// Where a value of the next byte leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    /// To a hop, by its code.
    Hop(u32),
    /// To a child, by its number in this block.
    Child(u32),
}

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

    /// Whether these leaves fit.
    fn holds(self, leaves: &[Leaf; 256]) -> bool {
        let values = 1usize << self.shift;
        let holds = |part: &[Leaf]| {
            let runs = 1 + part.windows(2).filter(|pair| pair[0] != pair[1]).count();
            runs <= usize::from(self.ends)
        };
        self.ends == 0 || leaves.chunks(values).all(holds)
    }

    /// The smallest that holds these leaves.
    fn smallest(leaves: &[Leaf; 256]) -> usize {
        let (mut hop_max, mut child_max) = (0, 0);
        for leaf in leaves {
            match *leaf {
                Leaf::Hop(code) => hop_max = hop_max.max(code),
                Leaf::Child(child) => child_max = child_max.max(child),
            }
        }
        let is_wide_enough = |kind: Self| {
            hop_max < kind.child_min() && child_max <= kind.highest() - kind.child_min()
        };
        let fits = |kind: &Kind| is_wide_enough(*kind) && kind.holds(leaves);
        KINDS
            .iter()
            .position(fits)
            .expect("the widest plain table holds all")
    }

    fn code(self, leaf: Leaf) -> u32 {
        match leaf {
            Leaf::Hop(code) => code,
            Leaf::Child(child) => self.highest() - child,
        }
    }
}

/// Writes a block of these leaves, with its children's entries, into the pool.
pub(super) fn write(pool: &mut Pool, leaves: &[Leaf; 256], children: &[Entry]) -> Entry {
    let number = Kind::smallest(leaves);
    let kind = KINDS[number];
    let (bytes, head) = (kind.bytes(), children.len() * 4);
    let (start, room) = pool.take(bytes + head);
    // The parts end where the room does, so that none crosses a cache line.
    let at = start + room - bytes;
    let chunk = pool.bytes_mut(start, room);
    chunk.fill(0xff);
    let (before, parts) = chunk.split_at_mut(room - bytes);
    for (slot, entry) in before.rchunks_exact_mut(4).zip(children) {
        slot.copy_from_slice(&entry.to_le_bytes());
    }
    let parts = parts.chunks_mut(1 << kind.stride_log2);
    for (number, part) in parts.enumerate() {
        let first = number << kind.shift;
        write_part(kind, part, first, &leaves[first..][..1 << kind.shift]);
    }
    (at / GRAIN_BYTES) as Entry * (1 << KIND_BITS) + number as Entry
}

/// The runs of `leaves`, which are those of `first` and the values behind it.
fn write_part(kind: Kind, part: &mut [u8], first: usize, leaves: &[Leaf]) {
    let (ends, codes) = part.split_at_mut(usize::from(kind.ends));
    let width = 1 << kind.width_log2;
    let mut run = 0;
    for (i, leaf) in leaves.iter().enumerate() {
        let is_last = leaves.get(i + 1) != Some(leaf);
        if is_last {
            if let Some(end) = ends.get_mut(run) {
                *end = (first + i) as u8;
            }
            let code = kind.code(*leaf).to_le_bytes();
            codes[run * width..][..width].copy_from_slice(&code[..width]);
            run += 1;
        }
    }
}

/// Gives back the room of a block with so many children.
pub(super) fn release(pool: &mut Pool, entry: Entry, children: usize) {
    let bytes = Kind::of(entry).bytes();
    let end = start(entry) + bytes;
    pool.give_back(end, bytes + children * 4);
}

/// Where the first part of a block starts.
#[inline]
pub(super) fn start(entry: Entry) -> usize {
    (entry >> KIND_BITS) as usize * GRAIN_BYTES
}

/// Says where a child's block is now.
pub(super) fn set_child(pool: &mut Pool, entry: Entry, child: usize, to: Entry) {
    let at = start(entry) - 4 * (child + 1);
    pool.bytes_mut(at, 4).copy_from_slice(&to.to_le_bytes());
}

/// Where `value` leads from `entry`: to a hop's code, or to a child's entry.
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
