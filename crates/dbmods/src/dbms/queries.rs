//! TPC-H's queries (specification 3.0.1, clause 2.4), with the substitution parameters of its validation runs.

use crate::tpch::TABLES;

/// The number of queries.
pub const COUNT: u8 = 22;

/// A query.
#[derive(Clone, Copy, Debug)]
pub struct TpchQuery {
    /// Its number, from 1.
    pub number: u8,
    /// Its text.
    pub sql: &'static str,
    /// The kind of each column of its result.
    pub columns: &'static [Class],
    /// The columns that its `ORDER BY` names, by their position in the result.
    pub sorted_by: &'static [usize],
}

/// The kind of a column, by which clause 2.1.3.5 of the specification says how far a value may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A value of a table, or a count: exact.
    Exact,
    /// A sum: within 100 of the expected one.
    Sum,
    /// An average or a ratio: rounded to hundredths, within 1 % of the expected one.
    Ratio,
}

use Class::{Exact as E, Ratio as R, Sum as S};

macro_rules! query {
    ($number:literal, $file:literal, [$($class:ident)*], [$($by:literal)*]) => {
        TpchQuery {
            number: $number,
            sql: include_str!(concat!("../../data/tpch/queries/", $file, ".sql")),
            columns: &[$($class),*],
            sorted_by: &[$($by),*],
        }
    };
}

const QUERIES: [TpchQuery; COUNT as usize] = [
    query!(1, "q01", [E E S S S S R R R E], [0 1]),
    query!(2, "q02", [E E E E E E E E], [0 2 1 3]),
    query!(3, "q03", [E S E E], [1 2]),
    query!(4, "q04", [E E], [0]),
    query!(5, "q05", [E S], [1]),
    query!(6, "q06", [S], []),
    query!(7, "q07", [E E E S], [0 1 2]),
    query!(8, "q08", [E R], [0]),
    query!(9, "q09", [E E S], [0 1]),
    query!(10, "q10", [E E S E E E E E], [2]),
    query!(11, "q11", [E S], [1]),
    query!(12, "q12", [E E E], [0]),
    query!(13, "q13", [E E], [1 0]),
    query!(14, "q14", [R], []),
    query!(15, "q15", [E E E E S], [0]),
    query!(16, "q16", [E E E E], [3 0 1 2]),
    query!(17, "q17", [R], []),
    query!(18, "q18", [E E E E E S], [4 3]),
    query!(19, "q19", [S], []),
    query!(20, "q20", [E E], [0]),
    query!(21, "q21", [E E], [1 0]),
    query!(22, "q22", [E E S], [0]),
];

/// The query of this number; `None` if TPC-H has none.
pub fn query(number: u8) -> Option<&'static TpchQuery> {
    QUERIES.get(usize::from(number).checked_sub(1)?)
}

/// All queries, in order.
pub fn all() -> impl Iterator<Item = &'static TpchQuery> {
    QUERIES.iter()
}

impl TpchQuery {
    /// Its name: `q1`.
    pub fn name(&self) -> String {
        format!("q{}", self.number)
    }

    /// The tables that it reads, small ones first.
    pub fn tables(&self) -> impl Iterator<Item = &'static str> {
        let words = self
            .sql
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let words: Vec<&str> = words.collect();
        TABLES
            .into_iter()
            .filter(move |table| words.contains(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_has_its_number_and_reads_the_tables_of_its_text() {
        for (number, query) in (1..).zip(all()) {
            assert_eq!(query.number, number);
            assert!(query.sorted_by.iter().all(|&at| at < query.columns.len()));
        }
        let tables = |number| query(number).unwrap().tables().collect::<Vec<_>>();
        assert_eq!(tables(1), ["lineitem"]);
        assert_eq!(
            tables(2),
            ["region", "nation", "supplier", "part", "partsupp"]
        );
        assert_eq!(tables(13), ["customer", "orders"]);
        assert_eq!(tables(8).len(), 7);
        assert!(query(0).is_none() && query(23).is_none());
    }
}
