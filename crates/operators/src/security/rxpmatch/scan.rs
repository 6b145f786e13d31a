//! Many payloads through one automaton, several at a time: a step of one waits for its table while those of the others
//! run.

use dpb_core::Batch;

use super::automaton::{Automaton, DEAD, Full, SPECIAL, UNKNOWN};

/// Payloads side by side.
const LANES: usize = 8;

/// A pattern's first match in an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hit {
    pub(super) item: u32,
    pub(super) pattern: u32,
    pub(super) end: u32,
}

/// The patterns that each lane's payload has matched.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// [`LANES`] rows of bits.
    words: Vec<u64>,
    row_words: usize,
    is_dirty: [bool; LANES],
}

/// An automaton had no room for what the payloads lead to, though its states did not serve long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyStates;

/// A payload under way.
#[derive(Clone, Copy)]
struct Lane<'a> {
    item: u32,
    bytes: &'a [u8],
    at: usize,
    state: u32,
}

/// One call of [`scan`].
struct Scan<'a, 's> {
    automaton: &'s mut Automaton,
    seen: &'s mut Seen,
    hits: &'s mut Vec<Hit>,
    lanes: [Lane<'a>; LANES],
    /// The number of rows in use, from the first.
    used: usize,
    /// Bytes since states were last forgotten.
    bytes: usize,
    /// Whether to give up rather than forget states that were hardly used.
    gives_up: bool,
}

/// Appends the first match of each pattern in each of these items of `batch`.
///
/// # Errors
/// [`TooManyStates`] if `gives_up`; then `hits` holds some matches of any of the items.
pub(super) fn scan(
    automaton: &mut Automaton,
    (batch, items): (Batch<'_>, impl Iterator<Item = u32>),
    seen: &mut Seen,
    hits: &mut Vec<Hit>,
    gives_up: bool,
) -> Result<(), TooManyStates> {
    const EMPTY: Lane<'_> = Lane {
        item: 0,
        bytes: &[],
        at: 0,
        state: 0,
    };
    let mut scan = Scan {
        automaton,
        seen,
        hits,
        lanes: [EMPTY; LANES],
        used: 0,
        bytes: 0,
        gives_up,
    };
    scan.run(batch, items)
}

impl Seen {
    /// For patterns below `n`.
    pub(super) fn of(n: usize) -> Self {
        let row_words = n.div_ceil(64);
        Self {
            words: vec![0; row_words * LANES],
            row_words,
            is_dirty: [false; LANES],
        }
    }

    fn row(&mut self, lane: usize) -> &mut [u64] {
        &mut self.words[lane * self.row_words..][..self.row_words]
    }

    /// Whether `pattern` is new in `lane`.
    fn put(&mut self, lane: usize, pattern: u32) -> bool {
        self.is_dirty[lane] = true;
        let (word, bit) = (pattern as usize / 64, 1 << (pattern % 64));
        let word = &mut self.row(lane)[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn clear(&mut self, lane: usize) {
        if self.is_dirty[lane] {
            self.row(lane).fill(0);
            self.is_dirty[lane] = false;
        }
    }

    /// Moves the patterns that `from` has seen to `to`.
    fn move_row(&mut self, from: usize, to: usize) {
        if self.is_dirty[from] || self.is_dirty[to] {
            let start = from * self.row_words;
            self.words
                .copy_within(start..start + self.row_words, to * self.row_words);
            self.is_dirty[to] = true;
        }
    }
}

impl<'a> Scan<'a, '_> {
    fn run(
        &mut self,
        batch: Batch<'a>,
        mut items: impl Iterator<Item = u32>,
    ) -> Result<(), TooManyStates> {
        loop {
            while self.used < LANES
                && let Some(item) = items.next()
            {
                let bytes = batch.item(item as usize);
                let Some((at, state)) = self.open(bytes) else {
                    continue;
                };
                self.seen.clear(self.used);
                self.lanes[self.used] = Lane {
                    item,
                    bytes,
                    at,
                    state,
                };
                self.used += 1;
            }
            match self.used {
                0 => return Ok(()),
                LANES => self.together()?,
                _ => {
                    self.alone(0)?;
                }
            }
            self.finish()?;
        }
    }

    /// The position and state to begin a payload with; `None` if its first bytes settle that nothing matches.
    fn open(&self, bytes: &[u8]) -> Option<(usize, u32)> {
        /// Most payloads that are settled early are by then.
        const BYTES: usize = 8;
        let mut state = self.automaton.start();
        if !self.automaton.is_anchored() {
            return Some((0, state));
        }
        let (table, classes) = (self.automaton.table(), self.automaton.classes());
        for (at, byte) in bytes.iter().take(BYTES).enumerate() {
            let entry = table[state as usize + usize::from(classes[usize::from(*byte)])];
            match entry {
                DEAD => return None,
                entry if entry & SPECIAL != 0 => return Some((at, state)),
                entry => state = entry,
            }
        }
        Some((bytes.len().min(BYTES), state))
    }

    /// Takes all lanes on until one has ended.
    fn together(&mut self) -> Result<(), TooManyStates> {
        loop {
            let left = self.lanes.map(|lane| lane.bytes.len() - lane.at);
            let steps = left.into_iter().min().expect("lanes");
            let payloads = self.lanes.map(|lane| &lane.bytes[lane.at..][..steps]);
            let mut states = self.lanes.map(|lane| lane.state);
            let stop = advance(
                self.automaton.table(),
                self.automaton.classes(),
                &mut states,
                &payloads,
            );
            let taken = stop.unwrap_or(steps);
            self.bytes += taken * LANES;
            for (lane, state) in self.lanes.iter_mut().zip(states) {
                lane.state = state;
                lane.at += taken;
            }
            if stop.is_none() {
                return Ok(());
            }
            let mut is_over = false;
            for lane in 0..LANES {
                is_over |= self.go(lane)?;
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Takes one lane to its end.
    fn alone(&mut self, lane: usize) -> Result<(), TooManyStates> {
        loop {
            let Lane {
                bytes, at, state, ..
            } = self.lanes[lane];
            let (table, classes) = (self.automaton.table(), self.automaton.classes());
            let mut state = state;
            let mut taken = 0;
            for byte in &bytes[at..] {
                let entry = table[state as usize + usize::from(classes[usize::from(*byte)])];
                if entry & SPECIAL != 0 {
                    break;
                }
                state = entry;
                taken += 1;
            }
            self.bytes += taken;
            self.lanes[lane].state = state;
            self.lanes[lane].at += taken;
            if at + taken == bytes.len() || self.go(lane)? {
                return Ok(());
            }
        }
    }

    /// Takes a lane over its next byte. Whether the payload's end is reached, or no rule has hope.
    fn go(&mut self, lane: usize) -> Result<bool, TooManyStates> {
        let Lane { bytes, at, .. } = self.lanes[lane];
        let class = self.automaton.classes()[usize::from(bytes[at])];
        self.enter(lane, usize::from(class))?;
        let lane = &mut self.lanes[lane];
        lane.at = if lane.state == DEAD {
            bytes.len()
        } else {
            at + 1
        };
        Ok(lane.at == bytes.len())
    }

    /// Takes a lane by a column, behind whose byte it is yet to move. Its state is [`DEAD`] then if no rule has hope.
    fn enter(&mut self, lane: usize, class: usize) -> Result<(), TooManyStates> {
        let state = self.lanes[lane].state;
        let mut entry = self.automaton.table()[state as usize + class];
        while entry == UNKNOWN {
            // Making room moves the lane's own state too.
            match self.automaton.find(self.lanes[lane].state, class) {
                Ok(found) => entry = found,
                Err(Full) => self.make_room()?,
            }
        }
        let state = if entry == DEAD {
            DEAD
        } else {
            entry & !SPECIAL
        };
        self.lanes[lane].state = state;
        if entry & SPECIAL == 0 || state == DEAD {
            return Ok(());
        }
        let Lane { item, at, .. } = self.lanes[lane];
        for &pattern in self.automaton.matched(state) {
            if self.seen.put(lane, pattern) {
                self.hits.push(Hit {
                    item,
                    pattern,
                    end: at as u32,
                });
            }
        }
        if self.automaton.is_dead(state) {
            self.lanes[lane].state = DEAD;
        }
        Ok(())
    }

    /// Forgets all states but those of the lanes.
    fn make_room(&mut self) -> Result<(), TooManyStates> {
        /// Steps for which a state should serve, on average, to be worth having been made.
        const STEPS_PER_STATE: usize = 50;
        if self.gives_up && self.bytes < self.automaton.len() * STEPS_PER_STATE {
            return Err(TooManyStates);
        }
        let lanes = self.lanes[..self.used].iter_mut();
        let lanes: Vec<_> = lanes
            .filter(|lane| lane.state != DEAD)
            .map(|lane| (self.automaton.key(lane.state), lane))
            .collect();
        self.automaton.forget();
        for (key, lane) in lanes {
            lane.state = self.automaton.state(key);
        }
        self.bytes = 0;
        Ok(())
    }

    /// Ends the payloads that are through, and closes the gaps.
    fn finish(&mut self) -> Result<(), TooManyStates> {
        let end = self.automaton.end_class();
        let mut lane = 0;
        while lane < self.used {
            let Lane {
                bytes, at, state, ..
            } = self.lanes[lane];
            if at < bytes.len() {
                lane += 1;
                continue;
            }
            if state != DEAD && self.automaton.table()[state as usize + end] & SPECIAL != 0 {
                self.enter(lane, end)?;
            }
            self.used -= 1;
            if lane != self.used {
                self.lanes[lane] = self.lanes[self.used];
                self.seen.move_row(self.used, lane);
            }
        }
        Ok(())
    }
}

/// Takes each state over its payload, all equally long. Stops where one has more to do: the number of the step, before
/// which the states are.
// Not inlined, so that what lies in registers does not depend on the caller. Inlined, an item of 1 KiB of the rules `ips` took 5 % more CPU
// time on an AMD EPYC with AVX-512 (Zen 5; `dpb op rxpmatch --backend cpu/tables --size 1KiB --host-cpu`, four turns).
#[inline(never)]
fn advance(
    table: &[u32],
    classes: &[u8; 256],
    states: &mut [u32; LANES],
    payloads: &[&[u8]; LANES],
) -> Option<usize> {
    let steps = payloads[0].len();
    assert!(payloads.iter().all(|payload| payload.len() == steps));
    let mut current = *states;
    for step in 0..steps {
        let mut entries = [0; LANES];
        let mut any = 0;
        for lane in 0..LANES {
            let class = classes[usize::from(payloads[lane][step])];
            entries[lane] = table[current[lane] as usize + usize::from(class)];
            any |= entries[lane];
        }
        if any & SPECIAL != 0 {
            *states = current;
            return Some(step);
        }
        current = entries;
    }
    *states = current;
    None
}
