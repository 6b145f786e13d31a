//! Figures of things that have names, run by run.

use std::collections::BTreeMap;

/// Figures of each of several things, in the order in which they were first added. A list has a number for each run; one that is not known is no number.
pub(in super::super) struct Figures<const N: usize> {
    rows: Vec<(Vec<String>, [Vec<f64>; N])>,
    places: BTreeMap<Vec<String>, usize>,
}

impl<const N: usize> Default for Figures<N> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            places: BTreeMap::new(),
        }
    }
}

impl<const N: usize> Figures<N> {
    /// Adds a run's figures of the thing of these names: those of its row's first columns.
    pub(super) fn add<const L: usize>(&mut self, names: [String; L], figures: [f64; N]) {
        let names = Vec::from(names);
        let place = *self.places.entry(names).or_insert_with_key(|names| {
            self.rows.push((names.clone(), [const { Vec::new() }; N]));
            self.rows.len() - 1
        });
        for (list, figure) in self.rows[place].1.iter_mut().zip(figures) {
            list.push(figure);
        }
    }

    /// The names of each thing, and its figures.
    pub(in super::super) fn rows(&self) -> &[(Vec<String>, [Vec<f64>; N])] {
        &self.rows
    }

    /// True if nothing was added.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
