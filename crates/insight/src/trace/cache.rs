//! Models of caches and TLBs: set-associative, least recently used, nothing fetched ahead.
//!
//! An access that lies in two lines is one reference, and one miss if either line misses, as cachegrind counts. A miss of the first
//! level is a reference of the last level.

use super::{Tally, TraceError};

/// The shape of a cache, or of a TLB whose lines are pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of lines.
    pub lines: u32,
    /// Lines of a set.
    pub ways: u32,
    /// The binary logarithm of a line's bytes.
    pub line_bits: u32,
}

/// A cache of lines.
#[derive(Clone, Debug)]
pub struct Cache {
    /// Numbers of lines, set by set, the last used one first.
    lines: Vec<u64>,
    ways: usize,
    set_mask: u64,
    line_bits: u32,
}

/// The caches and TLBs of a processor, as its documentation gives them. TLBs are those of the first level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The name by which it is chosen.
    pub name: &'static str,
    /// First level, instructions.
    pub l1i: Shape,
    /// First level, data.
    pub l1d: Shape,
    /// The level behind both.
    pub l2: Shape,
    /// Instruction TLB, pages of 4 KiB.
    pub itlb: Shape,
    /// Data TLB, pages of 4 KiB.
    pub dtlb: Shape,
    /// Instruction TLB, pages of 2 MiB.
    pub itlb_2m: Shape,
    /// Data TLB, pages of 2 MiB.
    pub dtlb_2m: Shape,
}

const fn cache(kib: u32, ways: u32) -> Shape {
    Shape {
        lines: kib * 1024 / 64,
        ways,
        line_bits: 6,
    }
}

const fn pages(lines: u32, ways: u32, line_bits: u32) -> Shape {
    Shape {
        lines,
        ways,
        line_bits,
    }
}

impl Geometry {
    /// The geometries that have names. `haswell` is DPUBench's machine (Xeon E5-2620 v3: Intel 64 and IA-32 Architectures Optimization
    /// Reference Manual, tables 2-16 and 2-18), `cortex-a72` BlueField-2's cores and `cortex-a78` BlueField-3's (Arm's Technical
    /// Reference Manuals; the L2 cache that NVIDIA's cores have), `zen` AMD's Zen 2 (Software Optimization Guide for family 17h models 30h
    /// and greater, §2.6 and 2.7).
    pub const NAMED: [Self; 4] = [
        Self {
            name: "haswell",
            l1i: cache(32, 8),
            l1d: cache(32, 8),
            l2: cache(256, 8),
            itlb: pages(128, 4, 12),
            dtlb: pages(64, 4, 12),
            itlb_2m: pages(8, 8, 21),
            dtlb_2m: pages(32, 4, 21),
        },
        Self {
            name: "cortex-a72",
            l1i: cache(48, 3),
            l1d: cache(32, 2),
            l2: cache(1024, 16),
            itlb: pages(48, 48, 12),
            dtlb: pages(32, 32, 12),
            itlb_2m: pages(48, 48, 21),
            dtlb_2m: pages(32, 32, 21),
        },
        Self {
            name: "cortex-a78",
            l1i: cache(64, 4),
            l1d: cache(64, 4),
            l2: cache(512, 8),
            itlb: pages(32, 32, 12),
            dtlb: pages(32, 32, 12),
            itlb_2m: pages(32, 32, 21),
            dtlb_2m: pages(32, 32, 21),
        },
        Self {
            name: "zen",
            l1i: cache(32, 8),
            l1d: cache(32, 8),
            l2: cache(512, 8),
            itlb: pages(64, 64, 12),
            dtlb: pages(64, 64, 12),
            itlb_2m: pages(64, 64, 21),
            dtlb_2m: pages(64, 64, 21),
        },
    ];

    /// The geometry of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|known| known.name == name)
    }

    /// The same with caches as cachegrind's `--I1`, `--D1` and `--LL` give them: `SIZE,ASSOCIATIVITY,LINE`, in bytes.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn with_caches(mut self, i1: &str, d1: &str, ll: &str) -> Result<Self, TraceError> {
        self.l1i = Shape::parse(i1)?;
        self.l1d = Shape::parse(d1)?;
        self.l2 = Shape::parse(ll)?;
        Ok(self)
    }
}

impl Shape {
    /// A cache as cachegrind takes it: `SIZE,ASSOCIATIVITY,LINE`, in bytes.
    ///
    /// # Errors
    /// If these are no three numbers, the line or the number of sets is no power of two, or the cache is larger than 1 GiB.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let wrong = || {
            TraceError::Malformed(format!(
                "cache `{text}`: SIZE,ASSOCIATIVITY,LINE in bytes, a power of two of sets and of bytes of a line"
            ))
        };
        let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
        let [size, ways, line] = numbers.map_err(|_| wrong())?[..] else {
            return Err(wrong());
        };
        let is_whole = line.is_power_of_two() && size <= 1 << 30 && ways > 0 && size > 0;
        let set = ways.checked_mul(line).ok_or_else(wrong)?;
        if !is_whole || size % set != 0 || !(size / set).is_power_of_two() {
            return Err(wrong());
        }
        Ok(Self {
            lines: size / line,
            ways,
            line_bits: line.trailing_zeros(),
        })
    }
}

impl Cache {
    /// An empty cache.
    ///
    /// # Panics
    /// If the number of sets is no power of two.
    pub fn new(shape: Shape) -> Self {
        let sets = shape.lines / shape.ways;
        assert!(sets.is_power_of_two() && sets * shape.ways == shape.lines);
        Self {
            // No address has this line.
            lines: vec![u64::MAX; shape.lines as usize],
            ways: shape.ways as usize,
            set_mask: u64::from(sets - 1),
            line_bits: shape.line_bits,
        }
    }

    /// Accesses bytes; true if a line that they lie in was not there.
    pub fn misses(&mut self, address: u64, bytes: u32) -> bool {
        let first = address >> self.line_bits;
        let last = address.wrapping_add(u64::from(bytes) - 1) >> self.line_bits;
        let mut is_missed = self.line_misses(first);
        if first != last {
            // Longer ones are of instructions that save a processor's state.
            let mut line = first;
            while line != last {
                line = line.wrapping_add(1) & (u64::MAX >> self.line_bits);
                is_missed |= self.line_misses(line);
            }
        }
        is_missed
    }

    fn line_misses(&mut self, line: u64) -> bool {
        let start = (line & self.set_mask) as usize * self.ways;
        let set = &mut self.lines[start..start + self.ways];
        if set[0] == line {
            return false;
        }
        let found = set.iter().position(|&held| held == line);
        let end = found.unwrap_or(self.ways - 1);
        set.copy_within(..end, 1);
        set[0] = line;
        found.is_none()
    }
}

/// Two caches of the first level before one of the second.
#[derive(Debug)]
pub(super) struct Hierarchy {
    l1i: Cache,
    l1d: Cache,
    l2: Cache,
    fetched: u64,
    l1i_misses: u64,
    l1d_misses: u64,
    l2i_misses: u64,
    l2d_misses: u64,
}

impl Hierarchy {
    pub(super) fn new(geometry: &Geometry) -> Self {
        Self {
            l1i: Cache::new(geometry.l1i),
            l1d: Cache::new(geometry.l1d),
            l2: Cache::new(geometry.l2),
            fetched: u64::MAX,
            l1i_misses: 0,
            l1d_misses: 0,
            l2i_misses: 0,
            l2d_misses: 0,
        }
    }

    /// An instruction is fetched.
    pub(super) fn fetch(&mut self, address: u64, bytes: u32) {
        let bits = self.l1i.line_bits;
        let last = address.wrapping_add(u64::from(bytes) - 1) >> bits;
        // The line of the instruction before is the last used one of its set.
        if last == self.fetched && address >> bits == last {
            return;
        }
        self.fetched = last;
        if self.l1i.misses(address, bytes) {
            self.l1i_misses += 1;
            self.l2i_misses += u64::from(self.l2.misses(address, bytes));
        }
    }

    /// Data is accessed.
    pub(super) fn access(&mut self, address: u64, bytes: u32) {
        if self.l1d.misses(address, bytes) {
            self.l1d_misses += 1;
            self.l2d_misses += u64::from(self.l2.misses(address, bytes));
        }
    }

    pub(super) fn count(&self, tally: &mut Tally) {
        tally.add("l1i_misses", self.l1i_misses);
        tally.add("l1d_misses", self.l1d_misses);
        tally.add("l2i_misses", self.l2i_misses);
        tally.add("l2d_misses", self.l2d_misses);
    }
}

/// The TLBs of the first level: as if all pages had 4 KiB, and as if all had 2 MiB.
#[derive(Debug)]
pub(super) struct Tlbs {
    instructions: [Tlb; 2],
    data: [Tlb; 2],
}

#[derive(Debug)]
struct Tlb {
    pages: Cache,
    /// The page of the access before.
    last: u64,
    misses: u64,
}

impl Tlb {
    fn new(shape: Shape) -> Self {
        Self {
            pages: Cache::new(shape),
            last: u64::MAX,
            misses: 0,
        }
    }

    fn access(&mut self, address: u64, bytes: u32) {
        let bits = self.pages.line_bits;
        let last = address.wrapping_add(u64::from(bytes) - 1) >> bits;
        if last == self.last && address >> bits == last {
            return;
        }
        self.last = last;
        self.misses += u64::from(self.pages.misses(address, bytes));
    }
}

impl Tlbs {
    pub(super) fn new(geometry: &Geometry) -> Self {
        Self {
            instructions: [geometry.itlb, geometry.itlb_2m].map(Tlb::new),
            data: [geometry.dtlb, geometry.dtlb_2m].map(Tlb::new),
        }
    }

    pub(super) fn fetch(&mut self, address: u64, bytes: u32) {
        for tlb in &mut self.instructions {
            tlb.access(address, bytes);
        }
    }

    pub(super) fn access(&mut self, address: u64, bytes: u32) {
        for tlb in &mut self.data {
            tlb.access(address, bytes);
        }
    }

    pub(super) fn count(&self, tally: &mut Tally) {
        tally.add("itlb_misses", self.instructions[0].misses);
        tally.add("itlb_2m_misses", self.instructions[1].misses);
        tally.add("dtlb_misses", self.data[0].misses);
        tally.add("dtlb_2m_misses", self.data[1].misses);
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::random::SplitMix64;

    use super::*;

    /// Each set is a list, the last used line at its end.
    struct Naive {
        sets: Vec<Vec<u64>>,
        shape: Shape,
    }

    impl Naive {
        fn misses(&mut self, address: u64, bytes: u32) -> bool {
            let (first, last) = (address, address + u64::from(bytes) - 1);
            let lines = (first >> self.shape.line_bits)..=(last >> self.shape.line_bits);
            let mut missed = false;
            for line in lines {
                let sets = self.sets.len() as u64;
                let set = &mut self.sets[(line % sets) as usize];
                match set.iter().position(|&held| held == line) {
                    Some(at) => drop(set.remove(at)),
                    None => {
                        missed = true;
                        if set.len() == self.shape.ways as usize {
                            set.remove(0);
                        }
                    }
                }
                set.push(line);
            }
            missed
        }
    }

    #[test]
    fn a_cache_is_the_naive_one() {
        let mut random = SplitMix64::new(7);
        for shape in ["1024,2,64", "4096,64,64", "512,1,32", "8192,8,128"] {
            let shape = Shape::parse(shape).expect("a shape");
            let sets = shape.lines / shape.ways;
            let mut naive = Naive {
                sets: vec![Vec::new(); sets as usize],
                shape,
            };
            let mut cache = Cache::new(shape);
            for _ in 0..20_000 {
                let near = random.below(3) > 0;
                let address = random.below(if near { 3000 } else { 1 << 20 }) as u64;
                let bytes = 1 + random.below(200) as u32;
                assert_eq!(cache.misses(address, bytes), naive.misses(address, bytes));
            }
        }
    }

    #[test]
    fn shapes_are_read_and_refused() {
        assert_eq!(Shape::parse("32768,8,64").expect("L1"), cache(32, 8));
        for wrong in [
            "",
            "1,2",
            "32768,8,63",
            "0,1,64",
            "32768,0,64",
            "3,1,1",
            "1,2,3,4",
            "100000,8,64",
            "4294967295,4294967295,64",
            "-1,1,64",
        ] {
            assert!(Shape::parse(wrong).is_err(), "{wrong}");
        }
        for geometry in Geometry::NAMED {
            Hierarchy::new(&geometry);
            Tlbs::new(&geometry);
            assert_eq!(Geometry::named(geometry.name), Some(geometry));
        }
    }

    #[test]
    fn an_access_at_the_last_address_ends() {
        let mut cache = Cache::new(cache(32, 8));
        assert!(cache.misses(u64::MAX - 1, 8));
    }
}
