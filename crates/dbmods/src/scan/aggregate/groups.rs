//! Groups of one row group, found block by block.

use std::collections::HashMap;

use super::super::ScanError;
use super::super::bind::TextReader;
use super::super::context::{Context, packed};
use super::super::kernels::Mask;
use super::super::memory::Memory;
use super::state::{Accumulated, Key, Partial, State};
use super::{Aggregation, GROUPS_MAX, Part};
use crate::query::GROUP_BY_MAX;

/// Up to so many groups of a row group are found by looking at each.
const GROUPS_LOOKED_THROUGH: usize = 8;
/// Most values of one grouping column in a block that are told apart by compares.
const COMPARED_VALUES_MAX: i64 = 32;

/// Texts of a grouping column, numbered, for a row group that has no dictionary of them.
pub(super) struct Numbered {
    reader: TextReader,
    numbers: HashMap<Vec<u8>, i64>,
    /// The scan's memory that they took.
    bytes: usize,
}

/// Groups of one row group, by integer, dictionary position or the text's number.
pub(in crate::scan) struct GroupTable<'a> {
    aggregation: &'a Aggregation,
    memory: &'a Memory,
    groups: Vec<([i64; 2], Accumulated)>,
    /// The place of each group, once they are too many to look through.
    places: HashMap<[i64; 2], usize>,
    readers: Vec<Option<TextReader>>,
    /// One for each grouping column.
    numbered: [Option<Numbered>; GROUP_BY_MAX],
}

/// Takes a table, a value of a grouping column, and the rows that have it.
type EachValue<'f, T> = dyn FnMut(&mut T, &mut Context, i64, &Mask) -> Result<(), ScanError> + 'f;

impl Aggregation {
    /// The table of a row group; its groups take from `memory`.
    pub(in crate::scan) fn open<'a>(&'a self, memory: &'a Memory) -> GroupTable<'a> {
        GroupTable {
            aggregation: self,
            memory,
            groups: Vec::new(),
            places: HashMap::new(),
            readers: self.parts.iter().map(|_| None).collect(),
            numbered: Default::default(),
        }
    }
}

impl GroupTable<'_> {
    /// Takes in the rows of `mask`.
    pub(in crate::scan) fn update(
        &mut self,
        context: &mut Context,
        block: usize,
        mask: &Mask,
    ) -> Result<(), ScanError> {
        let aggregation = self.aggregation;
        for part in &aggregation.parts {
            part.prepare(context, block)?;
        }
        match aggregation.group_by.len() {
            0 => self.accumulate(context, block, [0, 0], mask),
            1 => self.by_value(
                context,
                block,
                mask,
                0,
                &mut |table, context, value, rows| {
                    table.accumulate(context, block, [value, 0], rows)
                },
            ),
            _ => self.by_value(
                context,
                block,
                mask,
                0,
                &mut |table, context, left, rows| {
                    table.by_value(
                        context,
                        block,
                        rows,
                        1,
                        &mut |table, context, right, rows| {
                            table.accumulate(context, block, [left, right], rows)
                        },
                    )
                },
            ),
        }
    }

    /// Calls `each` with every value that a grouping column has in the rows of `mask`, and those rows.
    fn by_value(
        &mut self,
        context: &mut Context,
        block: usize,
        mask: &Mask,
        place: usize,
        each: &mut EachValue<'_, Self>,
    ) -> Result<(), ScanError> {
        let column = self.aggregation.group_by[place];
        let chunk = context.load(column)?.clone();
        if chunk.symbols().is_some() {
            let masks = self.by_text(context, block, mask, place)?;
            return (masks.into_iter())
                .try_for_each(|(number, rows)| each(self, context, number, &rows));
        }
        let (meta, unit) = (chunk.blocks()[block], chunk.unit());
        let Some(packed) = packed(&chunk, block) else {
            return each(self, context, meta.min, mask);
        };
        let span = (meta.max as u64).wrapping_sub(meta.min as u64) / unit as u64;
        if span < COMPARED_VALUES_MAX as u64 {
            let mut rows = Mask::NONE;
            for value in 0..=span {
                context.kernels().range(packed, value, 0, &mut rows);
                rows.and(mask);
                if !rows.is_empty() {
                    // The product may leave 64 bits where the sum comes back.
                    let value = meta.min.wrapping_add(unit.wrapping_mul(value as i64));
                    each(self, context, value, &rows)?;
                }
            }
            return Ok(());
        }
        context.unpack(column, block)?;
        let mut masks: HashMap<i64, Mask> = HashMap::new();
        let values = context.column(column)?;
        mask.for_each(|row| masks.entry(values[row]).or_insert(Mask::NONE).insert(row));
        for (value, rows) in masks {
            each(self, context, value, &rows)?;
        }
        Ok(())
    }

    /// The numbers of the texts that a grouping column has in the rows of `mask`, each with its rows.
    fn by_text(
        &mut self,
        context: &Context,
        block: usize,
        mask: &Mask,
        place: usize,
    ) -> Result<HashMap<i64, Mask>, ScanError> {
        let numbered = match &mut self.numbered[place] {
            Some(numbered) => numbered,
            none => none.insert(Numbered {
                reader: TextReader::new(context, self.aggregation.group_by[place])?,
                numbers: HashMap::new(),
                bytes: 0,
            }),
        };
        let mut masks = HashMap::new();
        mask.try_for_each(|row| {
            let text = numbered.reader.read(context, block, row)?;
            let number = match numbered.numbers.get(text) {
                Some(&number) => number,
                None => {
                    let number = numbered.numbers.len() as i64;
                    let bytes = Numbered::ENTRY_BYTES + text.len();
                    self.memory.take(bytes)?;
                    numbered.bytes += bytes;
                    numbered.numbers.insert(text.to_vec(), number);
                    number
                }
            };
            masks.entry(number).or_insert(Mask::NONE).insert(row);
            Ok::<_, ScanError>(())
        })?;
        Ok(masks)
    }

    /// The place of a group, new or known.
    fn place(&mut self, key: [i64; 2]) -> Result<usize, ScanError> {
        let known = if self.groups.len() <= GROUPS_LOOKED_THROUGH {
            self.groups.iter().position(|(of, _)| *of == key)
        } else {
            self.places.get(&key).copied()
        };
        if let Some(at) = known {
            return Ok(at);
        }
        let at = self.groups.len();
        if at == GROUPS_MAX {
            return Err(ScanError::TooManyGroups(GROUPS_MAX));
        }
        self.memory.take(self.aggregation.table_bytes())?;
        self.groups
            .push((key, Accumulated::new(&self.aggregation.parts)));
        self.places.insert(key, at);
        Ok(at)
    }

    /// Adds the rows of `mask`, all of one group.
    fn accumulate(
        &mut self,
        context: &Context,
        block: usize,
        key: [i64; 2],
        mask: &Mask,
    ) -> Result<(), ScanError> {
        let parts = &self.aggregation.parts;
        let at = self.place(key)?;
        let (_, group) = &mut self.groups[at];
        group.count += context.kernels().count(mask) as u64;
        for ((part, state), reader) in parts.iter().zip(&mut group.states).zip(&mut self.readers) {
            let value = part.of_rows(context, block, mask, reader)?;
            state.merge(value, part)?;
        }
        Ok(())
    }

    /// Merges the row group's groups by value.
    pub(in crate::scan) fn close(
        self,
        context: &mut Context,
        partial: &mut Partial,
    ) -> Result<(), ScanError> {
        let numbered_bytes: usize = self
            .numbered
            .iter()
            .flatten()
            .map(|column| column.bytes)
            .sum();
        let texts = self.numbered.map(|column| column.map(Numbered::in_order));
        for (key, accumulated) in self.groups {
            self.memory.give_back(self.aggregation.table_bytes());
            let mut values = Vec::with_capacity(self.aggregation.group_by.len());
            for (place, &column) in self.aggregation.group_by.iter().enumerate() {
                let value = key[place];
                let dictionary = context.load(column)?.dictionary();
                values.push(match (&texts[place], dictionary) {
                    (Some(texts), _) => Key::Text(texts[value as usize].clone()),
                    (None, Some(dictionary)) => {
                        Key::Text(dictionary.bytes(value as usize).to_vec())
                    }
                    (None, None) => Key::Integer(value),
                });
            }
            partial.add(values, accumulated, self.aggregation, self.memory)?;
        }
        self.memory.give_back(numbered_bytes);
        Ok(())
    }
}

impl Numbered {
    /// About what a text takes beside its own bytes.
    pub(super) const ENTRY_BYTES: usize = 2 * size_of::<(Vec<u8>, i64)>();

    /// The texts, each at its number.
    fn in_order(self) -> Vec<Vec<u8>> {
        let mut texts = vec![Vec::new(); self.numbers.len()];
        for (text, number) in self.numbers {
            texts[number as usize] = text;
        }
        texts
    }
}

impl Part {
    /// Makes the block's values present.
    fn prepare(&self, context: &mut Context, block: usize) -> Result<(), ScanError> {
        match *self {
            Self::Sum(node) | Self::Extreme(node, _) if !context.is_narrow(node) => {
                context.unpack_columns(node, block)
            }
            Self::Sum(node) | Self::Extreme(node, _) => context.evaluate(node, block),
            Self::ExtremeText(column, _) => context.load(column).map(|_| ()),
        }
    }

    /// The value of the rows of `mask`, at least one.
    fn of_rows(
        &self,
        context: &Context,
        block: usize,
        mask: &Mask,
        reader: &mut Option<TextReader>,
    ) -> Result<State, ScanError> {
        Ok(match *self {
            Self::Sum(node) if context.fits_sum(node) => State::Integer(i128::from(
                context.kernels().sum(context.values(node)?, mask),
            )),
            Self::Sum(node) => {
                let mut sum = 0i128;
                mask.try_for_each(|row| {
                    let value = context.exact(node, row)?;
                    sum = sum.checked_add(value).ok_or(ScanError::Overflow)?;
                    Ok::<_, ScanError>(())
                })?;
                State::Integer(sum)
            }
            Self::Extreme(node, side) => {
                let mut best: Option<i128> = None;
                mask.try_for_each(|row| {
                    let value = context.exact(node, row)?;
                    if best.is_none_or(|best| side.prefers(value.cmp(&best))) {
                        best = Some(value);
                    }
                    Ok::<_, ScanError>(())
                })?;
                best.map_or(State::Nothing, State::Integer)
            }
            Self::ExtremeText(column, side) => {
                let reader = match reader {
                    Some(reader) => reader,
                    none => none.insert(TextReader::new(context, column)?),
                };
                let mut best: Option<Vec<u8>> = None;
                mask.try_for_each(|row| {
                    let text = reader.read(context, block, row)?;
                    if best
                        .as_ref()
                        .is_none_or(|best| side.prefers(text.cmp(best)))
                    {
                        best = Some(text.to_vec());
                    }
                    Ok::<_, ScanError>(())
                })?;
                best.map_or(State::Nothing, State::Text)
            }
        })
    }
}
