//! Tests of FSST text on its codes: the automaton's transitions by code, and a filter that finds the rows worth running.

use super::ScanError;
use super::automaton::{Automaton, Table};
use super::kernels::gather::{ESCAPE, Symbols};
use super::kernels::{ByteSet, Kernels, Mask};
use crate::pushdown::chunk::{Chunk, TextBlock};

/// An automaton over the codes of one chunk.
#[derive(Debug)]
pub(super) struct CodeTest<'a> {
    automaton: &'a Automaton,
    symbols: Symbols,
    /// Row-major by state; filled when first needed, as most (state, code) pairs never are.
    next: Vec<u16>,
    /// A row passes only if one of these codes is in it.
    required: Option<ByteSet>,
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

    /// Which rows of `within` pass.
    pub(super) fn block(
        &mut self,
        kernels: &Kernels,
        text: TextBlock<'_>,
        within: &Mask,
        out: &mut Mask,
    ) {
        *out = Mask::NONE;
        let few = within.count() < FILTER_ROWS_MIN;
        match self.required {
            Some(required) if !few => {
                let mut found = std::mem::take(&mut self.found);
                found.resize(text.codes().len().div_ceil(64), 0);
                kernels.bytes_in_set(text.codes(), &required, &mut found);
                for_each_row_hit(text, &found, |row, codes| {
                    if within.contains(row) && self.passes(codes) {
                        out.insert(row);
                    }
                });
                self.found = found;
            }
            _ => within.for_each(|row| {
                if self.passes(text.row(row)) {
                    out.insert(row);
                }
            }),
        }
        if self.automaton.is_negated() {
            let matched = *out;
            *out = *within;
            out.and_not(&matched);
        }
    }

    /// Whether a row passes, before any negation.
    fn passes(&mut self, codes: &[u8]) -> bool {
        let Some(table) = self.automaton.table() else {
            self.decoded.clear();
            self.symbols.decode(codes, &mut self.decoded);
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

/// Calls `each` once for every row with a bit of `found` among its codes, ascending.
fn for_each_row_hit(text: TextBlock<'_>, found: &[u64], mut each: impl FnMut(usize, &[u8])) {
    let rows = text.rows();
    // The row whose codes start at or before the hit, and where they end.
    let (mut row, mut end) = (0, text.offset(1.min(rows)));
    let mut skip_to = 0;
    for (i, &word) in found.iter().enumerate() {
        let mut word = word;
        if skip_to > i * 64 {
            word &= u64::MAX.checked_shl((skip_to - i * 64) as u32).unwrap_or(0);
        }
        while word != 0 {
            let at = i * 64 + word.trailing_zeros() as usize;
            if at >= end {
                // Gallop: hits are a few rows apart.
                let mut step = 4;
                while row + step < rows && text.offset(row + step) <= at {
                    row += step;
                }
                while step > 0 {
                    if row + step < rows && text.offset(row + step) <= at {
                        row += step;
                    }
                    step /= 2;
                }
                end = text.offset(row + 1);
            }
            each(row, text.row(row));
            skip_to = end;
            let rest = end.saturating_sub(i * 64);
            word &= u64::MAX.checked_shl(rest as u32).unwrap_or(0);
        }
    }
}

/// Codes of which each row that holds all `needles` has at least one: for the rarest position of any needle, the symbols that
/// can cover it there, and the escape. `None` if even these are too common to help.
fn required_codes(
    needles: &[Vec<u8>],
    symbols: &Symbols,
    sample: TextBlock<'_>,
) -> Option<ByteSet> {
    let codes = &sample.codes()[..sample.codes().len().min(SAMPLE_CODES)];
    let mut frequency = [0u32; 256];
    for code in codes {
        frequency[usize::from(*code)] += 1;
    }
    let (best, hits) = needles
        .iter()
        .flat_map(|needle| covering_codes(needle, symbols))
        .map(|set| {
            let hits: u32 = (0..=255u8)
                .filter(|code| set.contains(*code))
                .map(|code| frequency[usize::from(code)])
                .sum();
            (set, hits)
        })
        .min_by_key(|(_, hits)| *hits)?;
    let codes_per_row = sample.codes().len() as f64 / sample.rows() as f64;
    let hits_per_row = f64::from(hits) / codes.len().max(1) as f64 * codes_per_row;
    (hits_per_row <= HITS_PER_ROW_MAX).then_some(best)
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
