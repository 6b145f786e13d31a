//! Writing the [`Spans`](crate::network::lpm::spans::Spans) of a trie: what its nodes come to for the first 48 bits.

use super::super::spans::{self, ASK, Entry, Run, Spans};
use super::super::values::Values;
use super::{ABSENT, Trie, byte, slot};

/// Nodes below one of the fifth byte from which on a table by that byte is changed in place. With fewer, a line may do without it.
const CROWDED: usize = 5;
/// How many bytes behind the root's bits the last table is, and lines are.
const LAST: usize = 2;

impl Trie {
    /// Writes all of a slot of the root, whose nodes are final.
    pub(super) fn span_slot(&mut self, slot: usize) {
        let Some(mut spans) = self.spans.take() else {
            return;
        };
        // What was there first, so that there is room.
        spans.set_slot(slot, spans::LEFT);
        let entry = match self.root_nodes[slot] {
            ABSENT => spans::of_code(self.root_code(slot)),
            node => self.span_table(&mut spans, node, 0),
        };
        spans.set_slot(slot, entry);
        self.spans = Some(spans);
    }

    /// Writes what the last node of a path comes to for these values of its byte; all of a slot of the root if there is no node.
    pub(super) fn span_path(&mut self, address: u128, path: &[u32], values: Values) {
        let slot = slot(address);
        let has_table = self
            .spans
            .as_ref()
            .map(|spans| spans::is_table(spans.of_slot(slot)));
        match has_table {
            Some(true) if !path.is_empty() => {
                if let Some(mut spans) = self.spans.take() {
                    self.span_below_root(&mut spans, address, path, values);
                    self.spans = Some(spans);
                }
            }
            Some(_) => self.span_slot(slot),
            None => {}
        }
    }

    /// The same where the first node of the path has a table.
    fn span_below_root(&self, spans: &mut Spans, address: u128, path: &[u32], values: Values) {
        let mut table = spans.of_slot(slot(address));
        for (depth, node) in path.iter().enumerate() {
            let byte = byte(address, depth);
            let below = match path.get(depth + 1) {
                None => return self.span_values(spans, table, *node, depth, values),
                Some(below) => *below,
            };
            let entry = spans.entry(table, byte);
            let is_small = depth + 1 == LAST && self.nodes[below as usize].children.len() < CROWDED;
            if depth == LAST || is_small || !spans::is_table(entry) {
                let value = Values::block(usize::from(byte), 1);
                return self.span_values(spans, table, *node, depth, value);
            }
            table = entry;
        }
    }

    /// Writes what a node that has a table comes to for these values of its byte.
    fn span_values(
        &self,
        spans: &mut Spans,
        table: Entry,
        node: u32,
        depth: usize,
        values: Values,
    ) {
        let codes = self.painted(node);
        for (first, last) in values.runs() {
            for value in first..=last {
                let entry = match self.child(node, value) {
                    ABSENT => spans::of_code(codes[usize::from(value)]),
                    child => {
                        spans.set(table, value, spans::LEFT);
                        self.span_child(spans, child, depth + 1, value)
                    }
                };
                spans.set(table, value, entry);
            }
        }
    }

    /// The way to what a node comes to that stands below `value` of the byte above.
    fn span_child(&self, spans: &mut Spans, node: u32, depth: usize, value: u8) -> Entry {
        if depth < LAST {
            return self.span_table(spans, node, depth);
        }
        if depth == LAST {
            let line = self.runs_of(node).and_then(|runs| spans.line(&runs));
            return line.unwrap_or_else(|| self.span_table(spans, node, depth));
        }
        let codes = self.codes_of_last(node);
        let mut runs = Vec::with_capacity(256);
        push_all(&mut runs, value, &codes);
        if let Some(line) = spans.line(&runs) {
            return line;
        }
        let Some(table) = spans.reserve() else {
            return spans::LEFT;
        };
        spans.fill(table, &codes.map(|code| spans::of_code(u32::from(code))));
        table
    }

    /// A table of what a node comes to. It has its room before what stands below it: where room runs out, what there is goes to those that come
    /// first, and nothing is built to be thrown away.
    fn span_table(&self, spans: &mut Spans, node: u32, depth: usize) -> Entry {
        let Some(table) = spans.reserve() else {
            return spans::LEFT;
        };
        let mut entries = self.painted(node).map(spans::of_code);
        for (value, child) in &self.nodes[node as usize].children {
            entries[usize::from(*value)] = self.span_child(spans, *child, depth + 1, *value);
        }
        spans.fill(table, &entries);
        table
    }

    /// The runs of a node of the fifth byte, if they are not many.
    fn runs_of(&self, node: u32) -> Option<Vec<Run>> {
        let children = &self.nodes[node as usize].children;
        if children.len() > spans::ENDS {
            return None;
        }
        let codes = self.painted(node);
        let mut children = children.iter().peekable();
        let mut runs = Vec::with_capacity(256);
        for (value, code) in (0..=u8::MAX).zip(codes) {
            match children.next_if(|(byte, _)| *byte == value) {
                Some((_, child)) => push_all(&mut runs, value, &self.codes_of_last(*child)),
                None => push(
                    &mut runs,
                    u16::from(value) << 8 | 0xff,
                    spans::byte_of(code),
                ),
            }
            if runs.len() > spans::ENDS {
                return None;
            }
        }
        Some(runs)
    }

    /// The codes of a node of the sixth byte.
    fn codes_of_last(&self, node: u32) -> [u8; 256] {
        let mut codes = self.painted(node).map(spans::byte_of);
        for (value, _) in &self.nodes[node as usize].children {
            codes[usize::from(*value)] = ASK;
        }
        codes
    }
}

/// Appends the runs of values that begin with the byte `upper`.
fn push_all(runs: &mut Vec<Run>, upper: u8, codes: &[u8; 256]) {
    for (value, code) in (0..).zip(codes) {
        push(runs, u16::from(upper) << 8 | value, *code);
    }
}

/// Appends a run, which may go on the one before it.
fn push(runs: &mut Vec<Run>, end: u16, code: u8) {
    match runs.last_mut() {
        Some((last, same)) if *same == code => *last = end,
        _ => runs.push((end, code)),
    }
}
