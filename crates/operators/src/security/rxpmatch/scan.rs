//! Many payloads through one automaton, several at a time: a step of one waits for its table while those of the others
//! run.

use dpb_core::Batch;

use super::automaton::{Automaton, DEAD, Full, Packed, SPECIAL, UNKNOWN};

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
    state: State,
}

/// A state of the automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The start of its row in the table, or [`DEAD`].
    Row(u32),
    /// Its place among the packed ones.
    Place(u32),
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
        state: State::Row(0),
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
    scan.run(batch, items)?;
    automaton.pack();
    Ok(())
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
                    state: State::Row(state),
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
            let taken = match self.places() {
                Some((packed, mut places)) => {
                    let classes = self.automaton.classes();
                    let taken = advance_packed(packed.slots(), classes, &mut places, &payloads);
                    self.move_on(taken, places.map(State::Place));
                    taken
                }
                None => {
                    let mut rows = self.lanes.map(|lane| self.row(lane.state));
                    let (table, classes) = (self.automaton.table(), self.automaton.classes());
                    let taken = advance(table, classes, &mut rows, &payloads);
                    self.move_on(taken, rows.map(State::Row));
                    taken
                }
            };
            if taken == steps {
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

    /// The packed states, and the lanes' places if all have one.
    fn places(&self) -> Option<(&Packed, [u32; LANES])> {
        let packed = self.automaton.packed()?;
        let mut places = [0; LANES];
        for (place, lane) in places.iter_mut().zip(&self.lanes) {
            *place = match lane.state {
                State::Place(place) => place,
                State::Row(row) => packed.place(row)?,
            };
        }
        Some((packed, places))
    }

    /// The row of a state.
    fn row(&self, state: State) -> u32 {
        match (state, self.automaton.packed()) {
            (State::Row(row), _) => row,
            (State::Place(place), Some(packed)) => packed.row(place),
            (State::Place(_), None) => unreachable!("places are given up with what is packed"),
        }
    }

    /// All lanes have taken so many steps.
    fn move_on(&mut self, taken: usize, states: [State; LANES]) {
        self.bytes += taken * LANES;
        for (lane, state) in self.lanes.iter_mut().zip(states) {
            lane.state = state;
            lane.at += taken;
        }
    }

    /// Takes one lane to its end.
    fn alone(&mut self, lane: usize) -> Result<(), TooManyStates> {
        loop {
            let Lane {
                bytes, at, state, ..
            } = self.lanes[lane];
            let (table, classes) = (self.automaton.table(), self.automaton.classes());
            let mut state = self.row(state);
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
            self.lanes[lane].state = State::Row(state);
            self.lanes[lane].at += taken;
            if at + taken == bytes.len() || self.go(lane)? {
                return Ok(());
            }
        }
    }

    /// Takes a lane over its next byte. Whether the payload's end is reached, or no rule has hope.
    fn go(&mut self, lane: usize) -> Result<bool, TooManyStates> {
        let Lane {
            bytes, at, state, ..
        } = self.lanes[lane];
        let class = usize::from(self.automaton.classes()[usize::from(bytes[at])]);
        match self.next(state, class) {
            Some(place) => self.lanes[lane].state = State::Place(place),
            None => self.enter(lane, class)?,
        }
        let lane = &mut self.lanes[lane];
        lane.at = if lane.state == State::Row(DEAD) {
            bytes.len()
        } else {
            at + 1
        };
        Ok(lane.at == bytes.len())
    }

    /// The place where a state that has one leads by a column, if that is packed.
    fn next(&self, state: State, class: usize) -> Option<u32> {
        match state {
            State::Row(_) => None,
            State::Place(place) => self.automaton.packed()?.next(place, class),
        }
    }

    /// Takes a lane by a column, behind whose byte it is yet to move. Its state is [`DEAD`] then if no rule has hope.
    fn enter(&mut self, lane: usize, class: usize) -> Result<(), TooManyStates> {
        let mut row = self.row(self.lanes[lane].state);
        let mut entry = self.automaton.table()[row as usize + class];
        while entry == UNKNOWN {
            match self.automaton.find(row, class) {
                Ok(found) => entry = found,
                // Making room moves the lane's own state too.
                Err(Full) => {
                    self.make_room()?;
                    row = self.row(self.lanes[lane].state);
                }
            }
        }
        if entry == DEAD {
            self.lanes[lane].state = State::Row(DEAD);
            return Ok(());
        }
        let row = entry & !SPECIAL;
        self.lanes[lane].state = State::Row(row);
        if entry & SPECIAL == 0 {
            return Ok(());
        }
        let Lane { item, at, .. } = self.lanes[lane];
        for &pattern in self.automaton.matched(row) {
            if self.seen.put(lane, pattern) {
                self.hits.push(Hit {
                    item,
                    pattern,
                    end: at as u32,
                });
            }
        }
        if self.automaton.is_dead(row) {
            self.lanes[lane].state = State::Row(DEAD);
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
        let mut keys = Vec::with_capacity(LANES);
        for lane in 0..self.used {
            let row = self.row(self.lanes[lane].state);
            if row != DEAD {
                keys.push((lane, self.automaton.key(row)));
            }
        }
        self.automaton.forget();
        for (lane, key) in keys {
            self.lanes[lane].state = State::Row(self.automaton.state(key));
        }
        self.bytes = 0;
        Ok(())
    }

    /// True if nothing matches at the end of a payload that ends in `state`.
    fn ends_quietly(&self, state: State) -> bool {
        let end = self.automaton.end_class();
        let is_known = state == State::Row(DEAD) || self.next(state, end).is_some();
        is_known || self.automaton.table()[self.row(state) as usize + end] & SPECIAL == 0
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
            if !self.ends_quietly(state) {
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

/// Takes each state, the start of a row, over its payload, all equally long. Stops where one has more to do: the number of steps
/// that all have taken.
// Not inlined, so that what lies in registers does not depend on the caller.
#[inline(never)]
fn advance(
    table: &[u32],
    classes: &[u8; 256],
    states: &mut [u32; LANES],
    payloads: &[&[u8]; LANES],
) -> usize {
    steps(states, payloads, |state, byte| {
        let entry = table[state as usize + usize::from(classes[usize::from(byte)])];
        (entry, entry & SPECIAL)
    })
}

/// The same, of places.
#[inline(never)]
fn advance_packed(
    slots: &[u32],
    classes: &[u8; 256],
    places: &mut [u32; LANES],
    payloads: &[&[u8]; LANES],
) -> usize {
    steps(places, payloads, |place, byte| {
        let class = u32::from(classes[usize::from(byte)]);
        let slot = slots[(place + class) as usize];
        (slot >> 8, (slot ^ class) & 0xff)
    })
}

/// Takes the states on by `step`, which gives the next state, and bits that are not zero where there is more to be done.
#[inline(always)]
fn steps(
    states: &mut [u32; LANES],
    payloads: &[&[u8]; LANES],
    step: impl Fn(u32, u8) -> (u32, u32),
) -> usize {
    /// Bytes of each payload that are copied together: from one place, so that the payloads' addresses take no registers.
    const BLOCK: usize = 16;
    let len = payloads[0].len();
    assert!(payloads.iter().all(|payload| payload.len() == len));
    let mut current = *states;
    let mut at = 0;
    let mut block = [[0; BLOCK]; LANES];
    while at < len {
        let size = BLOCK.min(len - at);
        for (block, payload) in block.iter_mut().zip(payloads) {
            match payload[at..].first_chunk() {
                Some(bytes) => *block = *bytes,
                None => block[..size].copy_from_slice(&payload[at..]),
            }
        }
        #[allow(clippy::needless_range_loop, reason = "a byte of each block")]
        for i in 0..size {
            let mut next = [0; LANES];
            let mut more = 0;
            for lane in 0..LANES {
                let (state, bits) = step(current[lane], block[lane][i]);
                next[lane] = state;
                more |= bits;
            }
            if more != 0 {
                *states = current;
                return at + i;
            }
            current = next;
        }
        at += size;
    }
    *states = current;
    len
}
