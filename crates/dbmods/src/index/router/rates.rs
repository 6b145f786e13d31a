//! The work that both sides do, and the split at which neither waits for the other.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that all lanes add to. They share no cache line with what lanes read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Rates {
    host_requests: AtomicU64,
    host_ns: AtomicU64,
    dpu_requests: AtomicU64,
    dpu_ns: AtomicU64,
    way_ns: AtomicU64,
}

/// Work that was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Requests that the host's side carried out.
    pub host_requests: u64,
    /// Time that its threads took for them, nanoseconds.
    pub host_ns: u64,
    /// Requests that the DPU's side carried out.
    pub dpu_requests: u64,
    /// Time that its threads took for them, nanoseconds on its clock.
    pub dpu_ns: u64,
    /// Time that the host's threads took to send these and to take what came, nanoseconds. Waiting is not in it.
    pub way_ns: u64,
}

impl Rates {
    pub(super) fn host(&self, requests: usize, ns: u64) {
        self.host_requests
            .fetch_add(requests as u64, Ordering::Relaxed);
        self.host_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn dpu(&self, requests: usize, ns: u64) {
        self.dpu_requests
            .fetch_add(requests as u64, Ordering::Relaxed);
        self.dpu_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn way(&self, ns: u64) {
        self.way_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The work so far.
    pub fn work(&self) -> Work {
        Work {
            host_requests: self.host_requests.load(Ordering::Relaxed),
            host_ns: self.host_ns.load(Ordering::Relaxed),
            dpu_requests: self.dpu_requests.load(Ordering::Relaxed),
            dpu_ns: self.dpu_ns.load(Ordering::Relaxed),
            way_ns: self.way_ns.load(Ordering::Relaxed),
        }
    }
}

impl Work {
    /// The work since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host_requests: self.host_requests - earlier.host_requests,
            host_ns: self.host_ns - earlier.host_ns,
            dpu_requests: self.dpu_requests - earlier.dpu_requests,
            dpu_ns: self.dpu_ns - earlier.dpu_ns,
            way_ns: self.way_ns - earlier.way_ns,
        }
    }

    /// The share of the requests that went to the DPU's side; `None` without requests.
    pub fn dpu_share(&self) -> Option<f64> {
        let all = self.host_requests + self.dpu_requests;
        (all > 0).then(|| self.dpu_requests as f64 / all as f64)
    }

    /// The share of the requests that the DPU's side should have, so that the sum of both rates is greatest.
    ///
    /// A request takes the host *h* at home, and *w* to be sent and taken back; it takes the DPU *d*. With *m* threads of the host and *n* of the DPU, the host's time is spent when
    /// *x h + y w = m*, the DPU's when *y d = n*. As long as *w* is less than *h*, each request that the DPU takes over frees the host, so the DPU takes all that it
    /// can: *y = n / d*, and at most what the host can send, *m / w*. A way that is dearer than the work itself is not worth going.
    ///
    /// `None` while one of the sides has not been measured.
    pub fn best_dpu_share(&self, host_threads: u32, dpu_threads: u32) -> Option<f64> {
        let mean = |ns: u64, requests: u64| (requests > 0).then(|| ns as f64 / requests as f64);
        let home = mean(self.host_ns, self.host_requests)?;
        let work = mean(self.dpu_ns, self.dpu_requests)?;
        let way = mean(self.way_ns, self.dpu_requests)?;
        if way >= home {
            return Some(0.0);
        }
        let (host, dpu) = (f64::from(host_threads), f64::from(dpu_threads));
        let taken = (dpu / work.max(1e-9)).min(host / way.max(1e-9));
        let kept = ((host - taken * way) / home.max(1e-9)).max(0.0);
        Some(taken / (taken + kept))
    }
}
