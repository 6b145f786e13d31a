//! Random numbers that a seed repeats: for inputs, faults and schedules, never for secrets.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): 64 bits of state, every seed good, the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that `seed` determines.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..n`; the bias is below `n / 2^64`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Uniform in (0, 1]: never zero, so that it has a logarithm.
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed with this mean: the gap between arrivals that know nothing of each other.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_published_sequence() {
        // From the reference implementation of S. Vigna, seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| random.next_u64()), expected);
    }

    #[test]
    fn means_are_where_they_should_be() {
        let mut random = SplitMix64::new(7);
        let n = 100_000;
        let gaps: f64 = (0..n).map(|_| random.exponential(250.0)).sum::<f64>() / f64::from(n);
        assert!((gaps - 250.0).abs() < 5.0, "{gaps}");
        let low = (0..n).filter(|_| random.below(10) < 3).count() as f64 / f64::from(n);
        assert!((low - 0.3).abs() < 0.01, "{low}");
    }
}
