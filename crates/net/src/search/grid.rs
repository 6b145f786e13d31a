//! The loads that a search uses: powers of a ratio below the highest, so that trials meet at the same loads.

/// Loads from a lowest to a highest, each in the same ratio to the next. They are numbered from 0.
pub(super) struct Grid {
    min: f64,
    max: f64,
    /// Of a load to the next higher one.
    ratio: f64,
    last: u32,
}

impl Grid {
    /// Steps of `width`, a part of the higher load.
    pub(super) fn new(min: f64, max: f64, width: f64) -> Self {
        let ratio = 1.0 - width;
        let steps = ((min / max).ln() / ratio.ln()).ceil();
        Self {
            min,
            max,
            ratio,
            last: (steps as u32).max(1),
        }
    }

    /// The number of the highest.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    pub(super) fn load(&self, at: u32) -> f64 {
        if at == 0 {
            return self.min;
        }
        let below = i32::try_from(self.last - at).unwrap_or(i32::MAX);
        (self.max * self.ratio.powi(below)).max(self.min)
    }

    /// The number of the highest that is not above `load`; the lowest if all are.
    pub(super) fn at_most(&self, load: f64) -> u32 {
        if load <= self.min {
            return 0;
        }
        let below = ((load / self.max).ln() / self.ratio.ln()).max(0.0);
        // A load of the grid is itself, whatever its logarithm was rounded to.
        self.last
            .saturating_sub((below - 1e-6).ceil().max(0.0) as u32)
    }

    /// The number of steps that are no wider than `width` together: one at least.
    pub(super) fn steps(&self, width: f64) -> u32 {
        (((1.0 - width).ln() / self.ratio.ln() + 1e-6) as u32).max(1)
    }
}
