//! The requests of one thread.

use dpb_core::random::SplitMix64;

use super::hash::hash;
use super::inserted::{Full, Inserted};
use super::spec::{Spec, SpecError};
use super::workload::Distribution;
use super::zipfian::{Zeta, Zipfian};

/// YCSB's zipfian constant 0.99, as `1 - 1/A`.
pub(super) const A: u32 = 100;
/// Items of YCSB's scrambled zipfian distribution: its `ITEM_COUNT` and one, as its last item is part of the range.
pub(super) const ITEMS: u64 = 10_000_000_001;
/// The zeta that YCSB has for them, `ZETAN`.
pub(super) const ITEMS_ZETA: f64 = 26.469_028_201_783_02;
/// Numbers of the random sequence between the threads, as a power of two: two days of a thread that draws one each 10 ns.
const STREAM_LOG: u32 = 44;

/// Records that are drawn at once.
const DRAWN: usize = 16;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read this record.
    Read(u64),
    /// Write a new version of this record.
    Update(u64),
    /// Insert this record, whose number was taken for it, then [acknowledge](Inserted::acknowledge) it.
    Insert(u64),
    /// Read records in the order of their keys.
    Scan {
        /// The record whose key is the first.
        from: u64,
        /// Records to read, at most.
        rows: u32,
    },
    /// Read this record, then write a new version of it.
    ReadModifyWrite(u64),
}

/// Draws the requests of one thread.
///
/// The same spec, seed, thread and counts of [`Inserted`] give the same requests on every machine. Threads draw from parts of one random sequence
/// that do not meet within 2^44 numbers each, which is two to three numbers a request.
#[derive(Clone, Debug)]
pub struct Generator {
    random: SplitMix64,
    /// Below these, a random number of 63 bits is a read, an update, an insert or a scan; above, a read-modify-write.
    bounds: [u64; 4],
    rows: u64,
    records: Records,
}

impl Generator {
    /// The generator of thread `thread`, of 2^20 at most.
    ///
    /// # Errors
    ///
    /// A [`SpecError`] if the spec is not [valid](Spec::validate).
    pub fn new(spec: &Spec, seed: u64, thread: u32) -> Result<Self, SpecError> {
        spec.validate()?;
        Ok(Self {
            random: stream(seed, thread),
            bounds: bounds(spec.mix.weights()),
            rows: spec.scan_rows_max.into(),
            records: Records::new(spec),
        })
    }

    /// The next request. An insert takes its number from `inserted`; a record that is drawn is one of those that `inserted` counts.
    ///
    /// # Errors
    ///
    /// [`Full`] when an insert is drawn and has no room. The next call may draw another request.
    #[inline]
    pub fn next(&mut self, inserted: &Inserted) -> Result<Request, Full> {
        let kind = self.random.next_u64() >> 1;
        let [read, update, insert, scan] = self.bounds;
        if kind < read {
            return Ok(Request::Read(self.record(inserted)));
        }
        if kind < update {
            return Ok(Request::Update(self.record(inserted)));
        }
        if kind < insert {
            return inserted.take().map(Request::Insert);
        }
        if kind < scan {
            let from = self.record(inserted);
            let rows = 1 + self.random.below(self.rows as usize) as u32;
            return Ok(Request::Scan { from, rows });
        }
        Ok(Request::ReadModifyWrite(self.record(inserted)))
    }

    /// A record that is there.
    #[inline]
    pub fn record(&mut self, inserted: &Inserted) -> u64 {
        self.records.draw(&mut self.random, inserted.records())
    }
}

/// The thread's part of the random sequence that the seed chooses.
pub(super) fn stream(seed: u64, thread: u32) -> SplitMix64 {
    /// The step of SplitMix64's state, which is odd, so that the sequence has all 2^64 states.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let begin = SplitMix64::new(seed).next_u64();
    let drawn = u64::from(thread) << STREAM_LOG;
    SplitMix64::new(begin.wrapping_add(STEP.wrapping_mul(drawn)))
}

/// The bounds of all kinds but the last. Kinds without weight have equal bounds, and so are never drawn.
fn bounds(weights: [f64; 5]) -> [u64; 4] {
    let sum: f64 = weights.iter().sum();
    let mut below = 0.0;
    let [first @ .., _] = weights;
    first.map(|weight| {
        below += weight;
        (below / sum * (1u64 << 63) as f64) as u64
    })
}

/// How records are drawn.
#[derive(Clone, Debug)]
enum Records {
    Uniform { records: u64 },
    Scrambled(Scrambled),
    Latest(Latest),
}

impl Records {
    fn new(spec: &Spec) -> Self {
        match spec.distribution {
            Distribution::Uniform => Self::Uniform {
                records: spec.records,
            },
            Distribution::Zipfian => Self::Scrambled(Scrambled::new(spec)),
            Distribution::Latest => Self::Latest(Latest::new(spec.records)),
        }
    }

    /// A record below `inserted`.
    #[inline]
    fn draw(&mut self, random: &mut SplitMix64, inserted: u64) -> u64 {
        match self {
            Self::Uniform { records } => random.below(*records as usize) as u64,
            Self::Scrambled(scrambled) => scrambled.draw(random, inserted),
            Self::Latest(latest) => latest.draw(uniform(random), inserted),
        }
    }
}

/// Uniform in `0.0..1.0`, of 53 bits, as Java's.
#[inline]
fn uniform(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Items by the zipfian distribution, hashed onto the records.
#[derive(Clone, Debug)]
struct Scrambled {
    items: Zipfian<A>,
    records: Modulus,
    /// Records that are drawn, the last `left` of them not yet used. A draw is a chain of some hundred cycles, and a loop over draws runs several
    /// chains at once: 8 ns each in place of 14.
    drawn: [u64; DRAWN],
    left: usize,
}

impl Scrambled {
    fn new(spec: &Spec) -> Self {
        Self {
            items: Zipfian::grown(ITEMS, ITEMS, ITEMS_ZETA),
            // YCSB's range includes its upper end, so there is one number more.
            records: Modulus::new(spec.records + spec.inserts_expected() + 1),
            drawn: [0; DRAWN],
            left: 0,
        }
    }

    #[inline]
    fn draw(&mut self, random: &mut SplitMix64, inserted: u64) -> u64 {
        loop {
            if self.left == 0 {
                self.draw_some(random);
            }
            let record = self.drawn[DRAWN - self.left];
            self.left -= 1;
            if record < inserted {
                return record;
            }
        }
    }

    #[inline(never)]
    fn draw_some(&mut self, random: &mut SplitMix64) {
        let mut uniforms = [0.0; DRAWN];
        for number in &mut uniforms {
            *number = uniform(random);
        }
        for (record, uniform) in self.drawn.iter_mut().zip(uniforms) {
            *record = self.items.item(uniform);
        }
        for record in &mut self.drawn {
            *record = self.records.of(hash(*record));
        }
        self.left = DRAWN;
    }
}

/// Ages by the zipfian distribution, from the newest record.
#[derive(Clone, Debug)]
pub(super) struct Latest {
    zeta: Zeta<A>,
    /// Ages when the generator was made.
    first: u64,
    ages: u64,
    items: Zipfian<A>,
}

impl Latest {
    pub(super) fn new(records: u64) -> Self {
        let zeta = Zeta::new();
        // YCSB takes the number of the newest record for the number of ages.
        let ages = records - 1;
        Self {
            items: Zipfian::grown(ages, ages, zeta.of(ages)),
            zeta,
            first: ages,
            ages,
        }
    }

    #[inline]
    pub(super) fn draw(&mut self, uniform: f64, inserted: u64) -> u64 {
        let newest = inserted - 1;
        if newest != self.ages {
            self.grow(newest);
        }
        // Where fewer than four records were loaded, YCSB's ages go beyond the first record.
        newest - self.items.item(uniform).min(newest.saturating_sub(1))
    }

    #[cold]
    fn grow(&mut self, ages: u64) {
        self.ages = ages;
        self.items = Zipfian::grown(self.first, ages, self.zeta.of(ages));
    }
}

/// The remainder by a number that is known before, without a division.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modulus {
    number: u64,
    /// 2^64 by the number, rounded down.
    reciprocal: u64,
}

impl Modulus {
    /// Of a number of 2 or more.
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            reciprocal: ((1u128 << 64) / u128::from(number)) as u64,
        }
    }

    /// The remainder of a number of 63 bits: the quotient by the reciprocal is right, or too small by one.
    #[inline]
    pub(super) fn of(self, dividend: u64) -> u64 {
        let quotient = ((u128::from(dividend) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = dividend - quotient * self.number;
        match rest < self.number {
            true => rest,
            false => rest - self.number,
        }
    }
}
