//! The values of columns, before they are encoded and after they are decoded.

use crate::schema::{Column, ColumnType, Schema};

/// Longest string of a row, decoded, in bytes.
pub(crate) const STRING_BYTES_MAX: usize = 1 << 20;

/// The values of one column of one row group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Values of all types but text, as a segment stores them: unscaled decimals, days since 1970-01-01.
    Numbers(Vec<i64>),
    /// Text.
    Texts(Texts),
}

/// Strings, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    bytes: String,
    ends: Vec<u32>,
}

impl Texts {
    /// Appends a string.
    ///
    /// # Panics
    /// If it is longer than `STRING_BYTES_MAX`, or all strings together pass 4 GiB.
    pub fn push(&mut self, text: &str) {
        self.bytes.push_str(text);
        let start = self.ends.last().map_or(0, |&end| end as usize);
        let len = self.bytes.len() - start;
        assert!(len <= STRING_BYTES_MAX, "a string of {len} bytes");
        self.ends
            .push(u32::try_from(self.bytes.len()).expect("under 4 GiB of text in a row group"));
    }

    /// Appends a value as it prints.
    pub fn push_display(&mut self, value: impl std::fmt::Display) {
        use std::fmt::Write;
        write!(self.bytes, "{value}").expect("a String takes all");
        self.push("");
    }

    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String `i`.
    ///
    /// # Panics
    /// If there is no such string.
    pub fn get(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start as usize..self.ends[i] as usize]
    }

    /// Returns all strings.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Forgets all strings, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl Values {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all values, keeps the memory.
    pub fn clear(&mut self) {
        match self {
            Self::Numbers(values) => values.clear(),
            Self::Texts(texts) => texts.clear(),
        }
    }
}

/// An empty list of values for each column of a schema.
pub(crate) fn empty(schema: &Schema) -> Vec<Values> {
    let empty = |column: &Column| match column.ty {
        ColumnType::Text => Values::Texts(Texts::default()),
        _ => Values::Numbers(Vec::new()),
    };
    schema.columns.iter().map(empty).collect()
}
