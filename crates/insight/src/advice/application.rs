//! The whole application, by Accelerometer (Sriraman and Dhanotia, ASPLOS 2020): how much faster a service becomes of which a part is offloaded.

use serde::Deserialize;

use super::interval::Estimate;

/// The user's profile of an application. dpb does not know it and invents nothing of it. As a TOML file:
///
/// ```toml
/// share = 0.17
/// offloads_per_s = 300000
/// cores = 2
/// design = "sync"
/// batch = 1
/// sizes = [[512, 0.4], [4096, 0.6]]
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// α: the kernel's share of the host's time, from 0 to 1.
    pub share: f64,
    /// n: offloads in a second.
    pub offloads_per_s: f64,
    /// Cores that the application keeps busy: C is as many seconds in each second.
    pub cores: f64,
    /// The way in which the application waits for the device.
    pub design: Design,
    /// o₁: the time of a thread switch in nanoseconds, for [`Design::SyncOs`].
    #[serde(default)]
    pub switch_ns: f64,
    /// Sizes of offloads and the share of each; their sum is 1.
    pub sizes: Vec<(u64, f64)>,
    /// Items of an offload.
    pub batch: u64,
}

/// The ways in which an application waits, in Accelerometer's words.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// The core waits.
    Sync,
    /// The core does another thread's work meanwhile; the switch costs.
    SyncOs,
    /// Nobody waits.
    Async,
}

/// The kernel's time by offload in the profile may differ from the records' by this factor.
const APART_MAX: f64 = 2.0;
/// The shares of sizes may miss 1 by this much.
const SHARES_OFF_MAX: f64 = 0.01;

impl Profile {
    /// Reads a TOML file's text.
    ///
    /// # Errors
    /// The error in it, in words.
    pub fn read(text: &str) -> Result<Self, String> {
        let profile: Self = toml::from_str(text).map_err(|why| why.to_string())?;
        profile.check()?;
        Ok(profile)
    }

    /// Refuses what no application is.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), String> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if !is_share(self.share) || self.share == 0.0 {
            return Err(format!(
                "`share` is {}; it is a part above 0 of 1",
                self.share
            ));
        }
        for (name, value) in [
            ("offloads_per_s", self.offloads_per_s),
            ("cores", self.cores),
        ] {
            if !value.is_finite() || value <= 0.0 {
                return Err(format!("`{name}` is {value}; it is a number above 0"));
            }
        }
        if !self.switch_ns.is_finite() || self.switch_ns < 0.0 {
            return Err(format!("`switch_ns` is {}", self.switch_ns));
        }
        if self.batch == 0 || self.sizes.is_empty() {
            return Err("it names no sizes, or jobs of no items".to_owned());
        }
        if let Some((size, share)) = self
            .sizes
            .iter()
            .find(|(size, share)| *size == 0 || !is_share(*share))
        {
            return Err(format!("size {size} has the share {share}"));
        }
        let sum: f64 = self.sizes.iter().map(|(_, share)| share).sum();
        match (sum - 1.0).abs() > SHARES_OFF_MAX {
            true => Err(format!("the shares of its sizes add to {sum:.3}, not to 1")),
            false => Ok(()),
        }
    }

    /// The kernel's time by offload that the profile means, in nanoseconds: α·C/n.
    pub fn kernel_ns(&self) -> f64 {
        self.share * self.cores * 1e9 / self.offloads_per_s
    }

    /// Refuses a profile whose kernel is another than the one that was measured.
    ///
    /// # Errors
    /// The reason.
    pub fn agrees(&self, host_ns: &Estimate) -> Result<(), String> {
        let own = self.kernel_ns();
        match own > host_ns.high * APART_MAX || own < host_ns.low / APART_MAX {
            true => Err(format!(
                "by the profile an offload's work takes the host {own:.0} ns (share × cores / offloads), by the records {:.0} ns: it is not the same work",
                host_ns.value
            )),
            false => Ok(()),
        }
    }

    /// The speed-up. `on_host_ns` is what an offload costs the submitting core (o₀ + L + Q of it), `whole_ns` the time from its submission to its result.
    /// Accelerometer's Sync has α/A for the device's time and (n/C)(o₀ + L + Q) for the rest; both together are `whole_ns`.
    pub fn speed_up(&self, on_host_ns: f64, whole_ns: f64) -> f64 {
        let by_offload = self.offloads_per_s / (self.cores * 1e9);
        let cost = match self.design {
            Design::Sync => whole_ns,
            Design::SyncOs => on_host_ns + self.switch_ns,
            Design::Async => on_host_ns,
        };
        1.0 / ((1.0 - self.share) + by_offload * cost)
    }

    /// The mean over its sizes of what `of` gives for each.
    ///
    /// # Errors
    /// The error if `of` cannot say it.
    pub fn mean<E>(&self, of: impl Fn(u64) -> Result<Estimate, E>) -> Result<Estimate, E> {
        let mut mean = Estimate::exact(0.0);
        for &(size, share) in &self.sizes {
            let one = of(size)?;
            mean.value += share * one.value;
            mean.low += share * one.low;
            mean.high += share * one.high;
        }
        Ok(mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(design: Design) -> Profile {
        Profile {
            share: 0.165844,
            offloads_per_s: 298_951.0,
            cores: 2.0,
            design,
            switch_ns: 0.0,
            sizes: vec![(4096, 1.0)],
            batch: 1,
        }
    }

    /// The equations as the authors' repository states them (`accelerometer.cc`): with C = 2e9 cycles of one nanosecond, A = 6, o₀ + L = 13.
    #[test]
    fn speed_ups_are_those_of_the_equations() {
        let (alpha, n, c, a, overhead): (f64, f64, f64, f64, f64) =
            (0.165844, 298_951.0, 2e9, 6.0, 13.0);
        let sync = 1.0 / ((1.0 - alpha) + alpha / a + n / c * overhead);
        // The device's time by offload is α·C/(A·n).
        let whole_ns = alpha * c / a / n + overhead;
        let found = profile(Design::Sync).speed_up(overhead, whole_ns);
        assert!((found - sync).abs() < 1e-12, "{found} {sync}");
        let asynchronous = 1.0 / ((1.0 - alpha) + n / c * overhead);
        let found = profile(Design::Async).speed_up(overhead, whole_ns);
        assert!((found - asynchronous).abs() < 1e-12);
        let switched = Profile {
            switch_ns: 5000.0,
            ..profile(Design::SyncOs)
        };
        let known = 1.0 / ((1.0 - alpha) + n / c * (overhead + 5000.0));
        assert!((switched.speed_up(overhead, whole_ns) - known).abs() < 1e-12);
    }

    #[test]
    fn what_no_application_is_is_refused() {
        let good = profile(Design::Sync);
        assert_eq!(good.check(), Ok(()));
        type Change = fn(&mut Profile);
        let wrong: [(Change, &str); 9] = [
            (|it| it.share = 1.5, "share"),
            (|it| it.share = f64::NAN, "share"),
            (|it| it.share = 0.0, "share"),
            (|it| it.offloads_per_s = -1.0, "offloads_per_s"),
            (|it| it.cores = f64::INFINITY, "cores"),
            (|it| it.switch_ns = -1.0, "switch_ns"),
            (|it| it.sizes = vec![(64, 0.5)], "add to"),
            (|it| it.sizes = vec![(0, 1.0)], "size 0"),
            (|it| it.batch = 0, "no items"),
        ];
        for (change, said) in wrong {
            let mut bad = good.clone();
            change(&mut bad);
            let why = bad.check().expect_err(said);
            assert!(why.contains(said), "{why}");
        }
        // 0.165844 · 2e9 / 298951 = 1110 ns.
        assert!(good.agrees(&Estimate::exact(1000.0)).is_ok());
        assert!(good.agrees(&Estimate::exact(10_000.0)).is_err());
        assert!(good.agrees(&Estimate::exact(100.0)).is_err());
    }
}
