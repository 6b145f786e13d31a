//! The split: which side has which keys, replaced whole while lanes read it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::index::protocol::IndexId;
use crate::index::remote::Remote;

/// A lane that has no request on its way.
pub(super) const IDLE: u64 = u64::MAX;

/// The version of the oldest split by which a lane routed a request that is on its way. It has cache lines of its own, as its lane writes it with each burst.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Announced(AtomicU64);

impl Announced {
    pub(super) fn set(&self, version: u64) {
        self.0.store(version, Ordering::SeqCst);
    }

    /// True if it is this one. For the lane whose it is.
    #[inline]
    pub(super) fn is(&self, version: u64) -> bool {
        self.0.load(Ordering::Relaxed) == version
    }

    /// True if it is above this one. For the lane whose it is.
    #[inline]
    pub(super) fn is_above(&self, version: u64) -> bool {
        self.0.load(Ordering::Relaxed) > version
    }
}

/// Which side has which keys.
#[derive(Clone, Debug)]
pub(super) struct Split {
    /// Later splits have larger ones.
    pub(super) version: u64,
    /// The mark below which keys are the host's.
    pub(super) boundary: usize,
    /// The marks of the piece that is moving: from the first on, before the second.
    pub(super) moving: Option<(usize, usize)>,
    /// The DPU's side.
    pub(super) dpu: Dpu,
}

/// The state of the DPU's side.
#[derive(Clone, Debug)]
pub(super) enum Dpu {
    /// There is none.
    None,
    /// The index there. A side that came back has a larger generation.
    Here { id: IndexId, generation: u64 },
    /// It was given up.
    Lost { why: Arc<str>, generation: u64 },
}

impl Dpu {
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// The generation; zero if there is no such side.
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Here { generation, .. } | Self::Lost { generation, .. } => *generation,
        }
    }
}

/// The newest split, and what lanes still use older ones.
pub(super) struct Splits {
    version: AtomicU64,
    state: Mutex<State>,
}

struct State {
    now: Arc<Split>,
    lanes: Vec<Arc<Announced>>,
    /// The connection that keeps the index of the DPU's side alive.
    keeper: Option<Remote>,
}

impl Splits {
    pub(super) fn new(boundary: usize, keeper: Option<Remote>) -> Self {
        let dpu = keeper.as_ref().map_or(Dpu::None, |keeper| Dpu::Here {
            id: keeper.id(),
            generation: 1,
        });
        let now = Split {
            version: 1,
            boundary,
            moving: None,
            dpu,
        };
        Self {
            version: AtomicU64::new(1),
            state: Mutex::new(State {
                now: Arc::new(now),
                lanes: Vec::new(),
                keeper,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest split.
    pub(super) fn now(&self) -> Arc<Split> {
        Arc::clone(&self.state().now)
    }

    /// The version of the newest split. A lane that announced its version before it asks is waited for.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// What a new lane announces.
    pub(super) fn register(&self) -> Arc<Announced> {
        let announced = Arc::new(Announced(AtomicU64::new(IDLE)));
        let mut state = self.state();
        // Lanes that are gone have left the only reference here.
        state.lanes.retain(|lane| Arc::strong_count(lane) > 1);
        state.lanes.push(Arc::clone(&announced));
        announced
    }

    /// Publishes what `change` makes of split `version`, and gives the new version; `None` if another split was published meanwhile.
    pub(super) fn publish(&self, version: u64, change: impl FnOnce(&mut Split)) -> Option<u64> {
        let mut state = self.state();
        let is_newest = state.now.version == version;
        is_newest.then(|| Self::publish_in(&mut state, &self.version, change))
    }

    fn publish_in(state: &mut State, version: &AtomicU64, change: impl FnOnce(&mut Split)) -> u64 {
        let mut split = Split::clone(&state.now);
        change(&mut split);
        split.version += 1;
        let published = split.version;
        state.now = Arc::new(split);
        version.store(published, Ordering::SeqCst);
        published
    }

    /// True if no lane has a request on its way that an older split than `version` routed.
    pub(super) fn is_past(&self, version: u64) -> bool {
        let state = self.state();
        state
            .lanes
            .iter()
            .all(|lane| lane.0.load(Ordering::SeqCst) >= version)
    }

    /// Gives the DPU's side of `generation` up, if it is still there. The boundary goes to `boundary` if there is one. True if this did it.
    pub(super) fn give_up(&self, generation: u64, why: &str, boundary: Option<usize>) -> bool {
        let mut state = self.state();
        let here = matches!(state.now.dpu, Dpu::Here { generation: now, .. } if now == generation);
        if here {
            state.keeper = None;
            Self::publish_in(&mut state, &self.version, |split| {
                split.dpu = Dpu::Lost {
                    why: why.into(),
                    generation,
                };
                split.moving = None;
                split.boundary = boundary.unwrap_or(split.boundary);
            });
        }
        here
    }

    /// A DPU's side that came back, with an empty index. Its range is empty until pieces are moved.
    pub(super) fn come_back(&self, keeper: Remote) {
        let mut state = self.state();
        let generation = state.now.dpu.generation() + 1;
        let id = keeper.id();
        state.keeper = Some(keeper);
        Self::publish_in(&mut state, &self.version, |split| {
            split.dpu = Dpu::Here { id, generation };
        });
    }

    /// Calls `ask` with the connection that keeps the index of the DPU's side alive, if there is one. Lanes do not wait for it.
    pub(super) fn with_keeper<T>(&self, ask: impl FnOnce(&mut Remote) -> T) -> Option<T> {
        let (mut keeper, generation) = {
            let mut state = self.state();
            (state.keeper.take()?, state.now.dpu.generation())
        };
        let told = ask(&mut keeper);
        let mut state = self.state();
        // A side that was given up meanwhile needs no keeper.
        if !state.now.dpu.is_lost() && state.now.dpu.generation() == generation {
            state.keeper = Some(keeper);
        }
        Some(told)
    }
}
