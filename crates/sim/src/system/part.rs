//! Reports of the parts of a system.

use super::server::Usage;
use super::wire::WireUsage;

/// The kinds of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The cores of a host.
    Cores,
    /// A stage of a card.
    Stage,
    /// DMA, or a memory or a bus that a card's stages share.
    Bus,
    /// The sending end of a wire.
    Wire,
    /// A part that only takes time.
    Passive,
}

/// The use of a part over a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its kind.
    pub kind: Kind,
    /// Its name within its component.
    pub name: String,
    /// The jobs that it serves at a time; none if it serves nothing and only takes time, such as a bus without a rate.
    pub lanes: usize,
    /// Jobs that it served, or will.
    pub jobs: u64,
    /// The time of service of all jobs together, in picoseconds.
    pub busy_ps: u64,
    /// The time of waiting of all jobs together, in picoseconds.
    pub waited_ps: u64,
    /// The most jobs that waited at a time.
    pub waiting_max: usize,
    /// Jobs that it refused.
    pub dropped: u64,
}

impl Part {
    /// A part that only takes time.
    pub fn passive(name: impl Into<String>) -> Self {
        Self {
            kind: Kind::Passive,
            name: name.into(),
            lanes: 0,
            jobs: 0,
            busy_ps: 0,
            waited_ps: 0,
            waiting_max: 0,
            dropped: 0,
        }
    }

    /// The same, by its whole name: that of its component before its own.
    #[must_use]
    pub fn of(self, component: &str) -> Self {
        let name = format!("{component}: {}", self.name);
        Self { name, ..self }
    }

    /// A server.
    pub fn server(kind: Kind, name: impl Into<String>, lanes: usize, usage: Usage) -> Self {
        Self {
            kind,
            lanes,
            jobs: usage.jobs,
            busy_ps: usage.busy_ps,
            waited_ps: usage.waited_ps,
            waiting_max: usage.waiting_max,
            dropped: usage.refused,
            ..Self::passive(name)
        }
    }

    /// The sending end of a wire.
    pub fn wire(name: impl Into<String>, usage: WireUsage) -> Self {
        Self {
            kind: Kind::Wire,
            lanes: 1,
            jobs: usage.sent,
            busy_ps: usage.busy_ps,
            waited_ps: usage.waited_ps,
            waiting_max: usage.waiting_max,
            dropped: usage.dropped + usage.lost,
            ..Self::passive(name)
        }
    }

    /// The share of the time of all lanes that was service, over a run of this length.
    pub fn utilisation(&self, run_ps: u64) -> f64 {
        match (run_ps, self.lanes) {
            (0, _) | (_, 0) => 0.0,
            (run_ps, lanes) => self.busy_ps as f64 / (run_ps as f64 * lanes as f64),
        }
    }

    /// The mean number of jobs that waited, over a run of this length (Little's law).
    pub fn waiting_mean(&self, run_ps: u64) -> f64 {
        self.waited_ps as f64 / run_ps.max(1) as f64
    }
}
