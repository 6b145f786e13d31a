//! The zipfian distribution as YCSB draws it.
//!
//! The method is that of Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994:
//! items 0 and 1 have their exact probabilities, and a power of a uniform number stands for the others. YCSB's `ZipfianGenerator` is this method, so
//! the items have the probabilities of the method, not those of Zipf's law: item 2, for one, is drawn more often by a fifth.
//!
//! The constant is `1 - 1/A` for a whole `A`: YCSB's 0.99 is A = 100. The method's power is then the A-th power, and the sum `1/1^c + 1/2^c + …`, its
//! zeta, needs an A-th root. Both are made of IEEE additions, products and quotients alone, so each machine draws the same items; a library's
//! `pow` differs between machines in the last bit.

/// A zipfian distribution over the items `0..items`, with constant `1 - 1/A`.
#[derive(Clone, Debug)]
pub(super) struct Zipfian<const A: u32> {
    items: f64,
    zeta: f64,
    eta: f64,
    /// `1 + 0.5^constant`: up to here, a uniform number times zeta is item 1.
    two: f64,
}

impl<const A: u32> Zipfian<A> {
    /// A distribution over `items` items that was made for `first` of them. YCSB's eta keeps a term of the first count, so ours does: when the items
    /// have doubled, YCSB never draws items 2 and 3.
    pub(super) fn grown(first: u64, items: u64, zeta: f64) -> Self {
        let two = 1.0 + 0.5 * root::<A>(2.0);
        Self {
            items: items as f64,
            zeta,
            eta: (1.0 - root::<A>(2.0 / first as f64)) / (1.0 - two / zeta),
            two,
        }
    }

    /// The item of `uniform`, a number of `0.0..1.0`.
    #[inline]
    pub(super) fn item(&self, uniform: f64) -> u64 {
        let scaled = uniform * self.zeta;
        // A cast of a float stops at the bounds of the integer, so no input is out of range.
        let later = (self.items * power::<A>(self.eta * uniform - self.eta + 1.0)) as i64;
        // Chosen without a branch: one of sixteen would be guessed wrong.
        let first = i64::from(scaled >= 1.0);
        let item = if scaled < self.two { first } else { later };
        item.cast_unsigned()
    }
}

/// The sums of `1 / i^constant` for i of `1..=items`, for any number of items at the cost of a root.
#[derive(Clone, Debug)]
pub(super) struct Zeta<const A: u32> {
    /// What the formula of Euler and Maclaurin lacks.
    constant: f64,
}

impl<const A: u32> Zeta<A> {
    /// Terms that are summed one by one. Above, the formula is right to the last bits.
    const SUMMED: u64 = 64;

    pub(super) fn new() -> Self {
        Self {
            constant: Self::sum(Self::SUMMED) - Self::formula(Self::SUMMED),
        }
    }

    /// The sum of so many terms.
    pub(super) fn of(&self, items: u64) -> f64 {
        match items <= Self::SUMMED {
            true => Self::sum(items),
            false => self.constant + Self::formula(items),
        }
    }

    fn sum(items: u64) -> f64 {
        (1..=items).map(|i| root::<A>(i as f64) / i as f64).sum()
    }

    /// The formula of Euler and Maclaurin for the sum up to `n`, but for a constant. The next term is below `1 / n^5`.
    fn formula(n: u64) -> f64 {
        let (a, n) = (f64::from(A), n as f64);
        let c = 1.0 - 1.0 / a;
        let root = root::<A>(n);
        let term = root / n;
        let slope = c * term / n;
        a * root + term / 2.0 - slope / 12.0 + slope * (c + 1.0) * (c + 2.0) / (720.0 * n * n)
    }
}

/// The A-th power.
#[inline(always)]
fn power<const A: u32>(base: f64) -> f64 {
    let (mut left, mut square, mut power) = (A, base, 1.0);
    while left > 0 {
        if left & 1 == 1 {
            power *= square;
        }
        square *= square;
        left >>= 1;
    }
    power
}

/// The A-th root of a positive number, by the method of Newton. It is right to some units of its last bit for numbers from 1e-11 to 1e11.
pub(super) fn root<const A: u32>(number: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let a = f64::from(A);
    let bits = number.to_bits();
    let exponent = (bits >> 52) as f64 - 1023.0;
    let mantissa = f64::from_bits(bits & MANTISSA | 1f64.to_bits());
    // The logarithm of the mantissa by three terms, wrong by 2e-4 at most; the guess by a series for its power of e.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let logarithm = 2.0 * t * (1.0 + t * t * (1.0 / 3.0 + t * t / 5.0));
    let x = (exponent * std::f64::consts::LN_2 + logarithm) / a;
    let series = |sum: f64, n: u32| 1.0 + x / f64::from(n) * sum;
    let mut root = (1..=9).rev().fold(1.0, series);
    // The guess is right to 2e-5 of itself. A step squares the error and takes it A / 2 times.
    for _ in 0..3 {
        root -= (root - number * root / power::<A>(root)) / a;
    }
    root
}
