//! The transitions that are known, close together.
//!
//! A row of the table has a column for each class of bytes, and payloads have led through few of them: over HTTP requests three in a row of
//! 141, each in a cache line of its own. A large table is therefore in no cache near the core. Here the rows lie over each other like
//! combs, the teeth of one in the gaps of others: row displacement, as in R. E. Tarjan and A. C. Yao, "Storing a sparse table",
//! Communications of the ACM 22 (11), 1979. A slot says which class it is for, and no two states begin at the same place, so a slot with
//! the class of the byte at hand is the state's own.

use std::cmp::Reverse;

use super::SPECIAL;

/// The most columns: a slot has a byte for the class, of which one value stands for none.
const CLASSES_MAX: usize = 255;
/// In a slot: free. No byte has this class.
const FREE: u32 = u32::MAX;
/// The most slots, of which there are no more than entries of the table: a slot has 24 bits for a place.
const SLOTS_MAX: usize = 1 << 24;
/// In `rows`: no state begins at this place.
const NONE: u32 = u32::MAX;

/// Transitions that lead to a state and have nothing else to be done.
pub(in super::super) struct Packed {
    /// At the place of a state plus a class: the place where the transition leads, above the class in the lowest byte.
    slots: Vec<u32>,
    /// By state: its place.
    places: Vec<u32>,
    /// By place: the start of the state's row in the table.
    rows: Vec<u32>,
    stride: usize,
}

/// States that are being put in their places.
struct Packing {
    /// By slot, whether it is taken.
    is_taken: Vec<bool>,
    rows: Vec<u32>,
    places: Vec<u32>,
}

impl Packed {
    /// The transitions of `table`, which has rows of `stride` columns; `None` if there are too many of either.
    pub(super) fn of(table: &[u32], stride: usize) -> Option<Self> {
        if stride > CLASSES_MAX || table.len() > SLOTS_MAX {
            return None;
        }
        let classes = |row: &[u32]| {
            let columns = row.iter().enumerate();
            let known = columns.filter(|(_, entry)| **entry & SPECIAL == 0);
            known.map(|(class, _)| class as u8).collect::<Vec<u8>>()
        };
        // Wide combs first: the teeth of others fill their gaps.
        let mut states: Vec<(Vec<u8>, u32)> =
            table.chunks_exact(stride).map(classes).zip(0..).collect();
        states.sort_by_key(|(classes, _)| Reverse(classes.len()));
        let magnitude = |(classes, _): &(Vec<u8>, u32)| classes.len().checked_ilog2();
        let mut packing = Packing {
            is_taken: Vec::new(),
            rows: Vec::new(),
            places: vec![0; states.len()],
        };
        for alike in states.chunk_by(|a, b| magnitude(a) == magnitude(b)) {
            packing.put(alike, stride);
        }
        let Packing { rows, places, .. } = packing;
        let mut slots = vec![FREE; rows.len()];
        for (row, place) in table.chunks_exact(stride).zip(&places) {
            for (class, entry) in row.iter().enumerate() {
                if entry & SPECIAL == 0 {
                    let to = places[*entry as usize / stride];
                    slots[*place as usize + class] = to << 8 | class as u32;
                }
            }
        }
        Some(Self {
            slots,
            places,
            rows,
            stride,
        })
    }

    /// The place of the state whose row starts at `row`, if the state is among these.
    pub(in super::super) fn place(&self, row: u32) -> Option<u32> {
        self.places.get(row as usize / self.stride).copied()
    }

    /// The start of the row of the state at `place`.
    pub(in super::super) fn row(&self, place: u32) -> u32 {
        self.rows[place as usize]
    }

    /// The place where the state at `place` leads by a column, if that is here.
    pub(in super::super) fn next(&self, place: u32, class: usize) -> Option<u32> {
        let slot = self.slots[place as usize + class];
        (slot as u8 == class as u8).then_some(slot >> 8)
    }

    pub(in super::super) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        (self.slots.len() + self.places.len() + self.rows.len()) * 4
    }
}

impl Packing {
    /// Puts states with about the same number of classes in the first gaps that they fit in.
    fn put(&mut self, states: &[(Vec<u8>, u32)], stride: usize) {
        // What one of these did not fit in, the next one seldom does.
        let mut from = 0;
        for (classes, state) in states {
            let place = self.gap(from, classes);
            let end = place + stride;
            if self.is_taken.len() < end {
                self.is_taken.resize(end, false);
                self.rows.resize(end, NONE);
            }
            for class in classes {
                self.is_taken[place + usize::from(*class)] = true;
            }
            self.rows[place] = *state * stride as u32;
            self.places[*state as usize] = place as u32;
            from = place;
        }
    }

    /// The first place from `from` on where no state begins, and where all slots of these classes are free.
    fn gap(&self, from: usize, classes: &[u8]) -> usize {
        let is_free = |slot: usize| !self.is_taken.get(slot).is_some_and(|taken| *taken);
        let is_gap = |place: &usize| {
            let mut slots = classes.iter().map(|class| place + usize::from(*class));
            self.rows[*place] == NONE && slots.all(is_free)
        };
        let places = from..self.rows.len();
        places.into_iter().find(is_gap).unwrap_or(self.rows.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{DEAD, UNKNOWN};
    use super::*;

    /// A table of a few states, with as many known transitions as `known` says of 100.
    fn tables() -> impl Strategy<Value = (Vec<u32>, usize)> {
        (1..40_usize, 1..30_usize, 0..100_u32).prop_flat_map(|(states, stride, known)| {
            let to = (0..states as u32).prop_map(move |state| state * stride as u32);
            let entry = prop_oneof![
                known + 1 => to.clone(),
                1 => to.prop_map(|to| to | SPECIAL),
                1 => Just(DEAD),
                100 - known => Just(UNKNOWN),
            ];
            prop::collection::vec(entry, states * stride).prop_map(move |table| (table, stride))
        })
    }

    proptest! {
        #[test]
        fn transitions_are_the_tables((table, stride) in tables()) {
            let packed = Packed::of(&table, stride).expect("few columns");
            let rows = (0..table.len()).step_by(stride);
            let mut places: Vec<u32> = rows.clone().map(|row| packed.place(row as u32).expect("a state")).collect();
            for (row, place) in rows.zip(&places) {
                prop_assert_eq!(packed.row(*place), row as u32);
                for class in 0..stride {
                    let entry = table[row + class];
                    let right = (entry & SPECIAL == 0).then(|| packed.place(entry).expect("a state"));
                    prop_assert_eq!(packed.next(*place, class), right);
                }
            }
            prop_assert!(packed.slots().len() <= table.len());
            places.sort_unstable();
            places.dedup();
            prop_assert_eq!(places.len(), table.len() / stride);
            prop_assert_eq!(packed.place(table.len() as u32), None);
        }
    }

    #[test]
    fn combs_lie_in_each_others_gaps() {
        // Each state leads on by two of 100 columns.
        let (states, stride) = (500, 100);
        let mut table = vec![UNKNOWN; states * stride];
        for state in 0..states {
            for class in [state % 61, 61 + state % 39] {
                table[state * stride + class] = ((state + 1) % states * stride) as u32;
            }
        }
        let packed = Packed::of(&table, stride).expect("few columns");
        assert!(
            packed.slots().len() < states * 2 * 2,
            "{}",
            packed.slots().len()
        );
    }

    #[test]
    fn what_does_not_fit_a_slot_is_not_packed() {
        let table = vec![UNKNOWN; 512];
        assert!(Packed::of(&table, CLASSES_MAX).is_some());
        assert!(Packed::of(&table, CLASSES_MAX + 1).is_none());
        assert!(Packed::of(&vec![UNKNOWN; SLOTS_MAX + 1], 100).is_none());
    }
}
