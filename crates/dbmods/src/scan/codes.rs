//! Tests of FSST text on its codes: the automaton's transitions by code, and a filter that finds the rows worth running.

use super::ScanError;
use super::automaton::{Automaton, Table};
use super::kernels::gather::{ESCAPE, Symbols};
use super::kernels::portable::rows_hit_by;
use super::kernels::{ByteSet, Kernels, Mask};
use crate::table::chunk::{Chunk, TextBlock};

/// An automaton over the codes of one chunk.
#[derive(Debug)]
pub(super) struct CodeTest<'a> {
    automaton: &'a Automaton,
    symbols: Symbols,
    /// Row-major by state; filled when first needed, as most (state, code) pairs never are.
    next: Vec<u16>,
    /// A row passes only if of each of these sets a code is in it.
    required: Vec<ByteSet>,
    found: Vec<u64>,
    decoded: Vec<u8>,
}

/// Not yet computed.
const UNKNOWN: u16 = u16::MAX;
/// The next byte is literal.
const LITERAL: u16 = u16::MAX - 1;
/// With fewer rows than this, looking at each is cheaper than filtering the block.
const FILTER_ROWS_MIN: usize = 48;
/// A filter that lets more than this share of the codes through is not worth its time.
const HITS_PER_ROW_MAX: f64 = 0.5;
/// With fewer candidates than this share of the rows, the automaton costs less than another filter.
const HITS_PER_ROW_FEW: f64 = 0.03;
/// Codes that frequencies are estimated from.
const SAMPLE_CODES: usize = 8192;

impl<'a> CodeTest<'a> {
    /// For a text chunk.
    pub(super) fn new(automaton: &'a Automaton, chunk: &Chunk) -> Result<Self, ScanError> {
        let table = chunk
            .symbols()
            .ok_or(ScanError::Internal("text without symbols"))?;
        let symbols = Symbols::new(&table.symbols[..table.len()], &table.lengths[..table.len()]);
        let next = automaton.table().map_or(Vec::new(), |table| {
            let mut next = vec![UNKNOWN; table.states() * 256];
            for state in next.as_chunks_mut::<256>().0 {
                state[usize::from(ESCAPE)] = LITERAL;
            }
            next
        });
        let required = required_codes(&automaton.needles(), &symbols, chunk.text(0));
        Ok(Self {
            automaton,
            symbols,
            next,
            required,
            found: Vec::new(),
            decoded: Vec::new(),
        })
    }

    /// Finds the rows of `within` that pass.
    pub(super) fn block(
        &mut self,
        kernels: &Kernels,
        text: TextBlock<'_>,
        within: &Mask,
        out: &mut Mask,
    ) {
        *out = Mask::NONE;
        let filtered = !self.required.is_empty() && kernels.count(within) > FILTER_ROWS_MIN;
        if filtered {
            self.found.resize(text.codes().len().div_ceil(64), 0);
            kernels.bytes_in_set(text.codes(), &self.required[0], &mut self.found);
        }
        let mut candidates = *within;
        let mut hits = *within;
        if text.wide() {
            let offsets = &text.offset_table().as_chunks::<4>().0[..=text.rows()];
            let offset = |i: usize| u32::from_le_bytes(offsets[i]) as usize;
            if filtered {
                rows_hit_by(&self.found, text.rows(), &mut hits, offset);
            }
            candidates.and(&hits);
            self.rows(kernels, text.codes(), filtered, &candidates, out, offset);
        } else {
            let offsets = &text.offset_table().as_chunks::<2>().0[..=text.rows()];
            if filtered {
                kernels.rows_hit(&self.found, offsets, &mut hits);
            }
            candidates.and(&hits);
            self.rows(kernels, text.codes(), filtered, &candidates, out, |i| {
                usize::from(u16::from_le_bytes(offsets[i]))
            });
        }
        if self.automaton.is_negated() {
            let matched = *out;
            *out = *within;
            out.and_not(&matched);
        }
    }

    /// Adds the `candidates` that pass, before any negation; `offset` gives where a row's codes start.
    #[inline(always)]
    fn rows(
        &mut self,
        kernels: &Kernels,
        codes: &[u8],
        filtered: bool,
        candidates: &Mask,
        out: &mut Mask,
        offset: impl Fn(usize) -> usize,
    ) {
        let second = if filtered {
            self.required.get(1).copied()
        } else {
            None
        };
        if let Some(second) = second {
            kernels.bytes_in_set(codes, &second, &mut self.found);
        }
        candidates.for_each(|row| {
            let (start, end) = (offset(row), offset(row + 1));
            if (second.is_none() || any_bit(&self.found, start, end))
                && self.passes(&codes[start..end])
            {
                out.insert(row);
            }
        });
    }

    /// Returns true if a row passes, before any negation.
    fn passes(&mut self, codes: &[u8]) -> bool {
        let Some(table) = self.automaton.table() else {
            self.decoded.clear();
            self.symbols
                .decode(codes, 0..codes.len(), &mut self.decoded);
            return self.automaton.matches(&self.decoded) != self.automaton.is_negated();
        };
        let absorbing = table.absorbing();
        let mut state = table.start();
        let mut at = 0;
        while at < codes.len() && state < absorbing {
            let entry = usize::from(state) * 256 + usize::from(codes[at]);
            at += 1;
            let mut to = self.next[entry];
            if to >= absorbing {
                to = match to {
                    LITERAL => {
                        let literal = codes.get(at).copied();
                        at += 1;
                        literal.map_or(state, |byte| table.run(state, &[byte]))
                    }
                    UNKNOWN => self.learn(table, entry),
                    decided => decided,
                };
            }
            state = to;
        }
        table.accepts(state)
    }

    #[cold]
    fn learn(&mut self, table: &Table, entry: usize) -> u16 {
        let (symbol, len) = self.symbols.symbol((entry % 256) as u8);
        let to = table.run((entry / 256) as u16, &symbol[..len]);
        self.next[entry] = to;
        to
    }
}

/// Returns true if one of the bits `start..end` is set.
#[inline(always)]
fn any_bit(bits: &[u64], start: usize, end: usize) -> bool {
    if start == end {
        return false;
    }
    let (first, last) = (start / 64, (end - 1) / 64);
    let from = u64::MAX << (start % 64);
    let to = u64::MAX >> (63 - (end - 1) % 64);
    if first == last {
        return bits[first] & from & to != 0;
    }
    bits[first] & from != 0
        || bits[last] & to != 0
        || bits[first + 1..last].iter().any(|&word| word != 0)
}

/// Sets of codes of each of which every row that holds all `needles` has one: for a needle's rarest position, the symbols that
/// can cover it there, and the escape. The rarest sets first, none too common to help, and no more than pay.
fn required_codes(needles: &[Vec<u8>], symbols: &Symbols, sample: TextBlock<'_>) -> Vec<ByteSet> {
    let codes = &sample.codes()[..sample.codes().len().min(SAMPLE_CODES)];
    let mut frequency = [0u32; 256];
    for code in codes {
        frequency[usize::from(*code)] += 1;
    }
    let hits = |set: &ByteSet| -> u32 {
        (0..=255u8)
            .filter(|code| set.contains(*code))
            .map(|code| frequency[usize::from(code)])
            .sum()
    };
    let codes_per_row = sample.codes().len() as f64 / sample.rows() as f64;
    let per_row = |hits: u32| f64::from(hits) / codes.len().max(1) as f64 * codes_per_row;
    let mut best: Vec<(u32, ByteSet)> = needles
        .iter()
        .filter_map(|needle| {
            covering_codes(needle, symbols)
                .into_iter()
                .map(|set| (hits(&set), set))
                .min_by_key(|(hits, _)| *hits)
        })
        .filter(|(hits, _)| per_row(*hits) <= HITS_PER_ROW_MAX)
        .collect();
    best.sort_by_key(|(hits, _)| *hits);
    // A second set is worth its pass if the first leaves many rows.
    let sets = match best.first() {
        Some((hits, _)) if per_row(*hits) > HITS_PER_ROW_FEW => 2,
        _ => 1,
    };
    best.into_iter().take(sets).map(|(_, set)| set).collect()
}

/// For each position of `needle`: the codes that can stand over it in an occurrence.
fn covering_codes(needle: &[u8], symbols: &Symbols) -> Vec<ByteSet> {
    let mut escape = ByteSet::EMPTY;
    escape.insert(ESCAPE);
    let mut sets = vec![escape; needle.len()];
    for code in 0..ESCAPE {
        let (symbol, len) = symbols.symbol(code);
        // The symbol starts `before` bytes before the needle, or later.
        for start in 1 - len as isize..needle.len() as isize {
            let from = start.max(0) as usize;
            let to = ((start + len as isize) as usize).min(needle.len());
            let first = (from as isize - start) as usize;
            if symbol[first..first + (to - from)] == needle[from..to] {
                sets[from..to].iter_mut().for_each(|set| set.insert(code));
            }
        }
    }
    sets
}
