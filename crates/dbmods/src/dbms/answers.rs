//! Answers, judged: against the expected answers of three scale factors, and against other answers to the same query.
//!
//! Rows are compared in order as far as the query's `ORDER BY` decides it; rows that it does not tell apart may come in any order.
//! Against an expected answer values may be off as clause 2.1.3.5 of TPC-H's specification allows: sums by 100, averages and ratios by 1 %,
//! all else not at all. Two answers of one run must be the same to the last digit of every decimal; DOUBLEs, whose last digits depend
//! on the order of additions, to nine digits.

mod files;

use std::fmt;

use super::answer::{Answer, Cell};
use super::queries::{Class, TpchQuery};

/// The difference that two DOUBLEs of the same meaning may have, as a part of the larger one.
const DOUBLES_DIFFER_MAX: f64 = 1e-9;
/// The difference that a sum may have (clause 2.1.3.5 c).
const SUM_OFF_MAX: f64 = 100.0;
/// The difference that an average or a ratio may have, as a part of it, both rounded to hundredths (clause 2.1.3.5 b, d).
const RATIO_OFF_MAX: f64 = 0.01;

/// The first difference between two answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The query's number.
    pub query: u8,
    /// The row, from 1.
    pub row: usize,
    /// The expected row; `None` if there is none so far down.
    pub expected: Option<String>,
    /// The row that came; `None` if there is none so far down.
    pub found: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { query, row, .. } = self;
        let shown = |row: &Option<String>| row.clone().unwrap_or_else(|| "no row".to_owned());
        write!(
            f,
            "q{query}: row {row} is {}, expected {}",
            shown(&self.found),
            shown(&self.expected)
        )
    }
}

/// The judge of a pair of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judge {
    /// The specification's tolerances.
    Specification,
    /// The same value.
    Same,
}

/// Scale factors whose answers are known.
pub fn scale_factors() -> impl Iterator<Item = f64> {
    files::ANSWERS.iter().map(|(sf, _)| *sf)
}

/// The expected answer to a query; `None` at a scale factor whose answers are not known.
pub fn expected(query: &TpchQuery, scale_factor: f64) -> Option<Answer> {
    let (_, files) = files::ANSWERS.iter().find(|(sf, _)| *sf == scale_factor)?;
    Some(read(files[usize::from(query.number) - 1]))
}

/// The first row of `found` that is not as `expected`, by the specification's tolerances.
pub fn wrong(query: &TpchQuery, expected: &Answer, found: &Answer) -> Option<Difference> {
    first_difference(query, expected, found, Judge::Specification)
}

/// The first row in which two answers to a query are not the same.
pub fn differ(query: &TpchQuery, first: &Answer, second: &Answer) -> Option<Difference> {
    first_difference(query, first, second, Judge::Same)
}

/// The rows of a file of expected answers.
fn read(text: &str) -> Answer {
    let cell = |text: &str| match text {
        "" | "\"\"" => None,
        text => Some(text.to_owned()),
    };
    let rows = text.lines().skip(1);
    Answer {
        doubles: Vec::new(),
        rows: rows.map(|row| row.split('|').map(cell).collect()).collect(),
    }
}

fn first_difference(
    query: &TpchQuery,
    expected: &Answer,
    found: &Answer,
    judge: Judge,
) -> Option<Difference> {
    let (left, right) = (arranged(query, expected), arranged(query, found));
    let rows = left.len().max(right.len());
    let row = (0..rows).find(|&row| match (left.get(row), right.get(row)) {
        (Some(left), Some(right)) => !is_row_alike(query, left, right, judge),
        _ => true,
    })?;
    let text = |rows: &[&[Cell]]| rows.get(row).map(|row| shown(row));
    Some(Difference {
        query: query.number,
        row: row + 1,
        expected: text(&left),
        found: text(&right),
    })
}

/// The rows, those that the query's `ORDER BY` does not tell apart in an order of ours.
fn arranged<'a>(query: &TpchQuery, answer: &'a Answer) -> Vec<&'a [Cell]> {
    let mut rows: Vec<&[Cell]> = answer.rows.iter().map(Vec::as_slice).collect();
    let is_tie = |a: &&[Cell], b: &&[Cell]| {
        (query.sorted_by.iter()).all(|&at| is_value_alike(&a[at..=at], &b[at..=at]))
    };
    // A row of another width is a difference of its own, and has no such columns.
    if rows.iter().any(|row| row.len() != query.columns.len()) {
        return rows;
    }
    for ties in rows.chunk_by_mut(is_tie) {
        ties.sort_by_cached_key(|row| {
            let of = |is_exact: bool| {
                let classes = query.columns.iter().zip(*row);
                classes
                    .filter(move |(class, _)| (**class == Class::Exact) == is_exact)
                    .map(|(_, cell)| cell.clone())
            };
            of(true).chain(of(false)).collect::<Vec<Cell>>()
        });
    }
    rows
}

fn is_row_alike(query: &TpchQuery, expected: &[Cell], found: &[Cell], judge: Judge) -> bool {
    expected.len() == query.columns.len()
        && found.len() == query.columns.len()
        && (query.columns.iter().zip(expected).zip(found)).all(|((class, expected), found)| {
            is_value_alike(std::slice::from_ref(expected), std::slice::from_ref(found))
                || judge == Judge::Specification && is_within(*class, expected, found)
        })
}

/// True if two values are the same, whatever zeros end their decimals; NULL is the same as NULL.
fn is_value_alike(one: &[Cell], other: &[Cell]) -> bool {
    let ([one], [other]) = (one, other) else {
        return false;
    };
    let (Some(one), Some(other)) = (one, other) else {
        return one == other;
    };
    if one == other || trimmed(one) == trimmed(other) {
        return true;
    }
    // Digits that no decimal of a query has are of a DOUBLE.
    let is_double = |text: &str| {
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        text.contains(['e', 'E']) || fraction.len() > DECIMAL_DIGITS_MAX
    };
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(a), Ok(b)) if is_double(one) || is_double(other) => {
            (a - b).abs() <= DOUBLES_DIFFER_MAX * a.abs().max(b.abs())
        }
        _ => false,
    }
}

/// Digits after the point of a decimal in an answer, at most: the sum of a product of three columns.
const DECIMAL_DIGITS_MAX: usize = 6;

/// True if a value is within what clause 2.1.3.5 allows for its class.
fn is_within(class: Class, expected: &Cell, found: &Cell) -> bool {
    let number = |cell: &Cell| cell.as_ref().and_then(|text| text.parse::<f64>().ok());
    let (Some(expected), Some(found)) = (number(expected), number(found)) else {
        return false;
    };
    let hundredths = |value: f64| (value * 100.0).round() / 100.0;
    match class {
        Class::Exact => false,
        Class::Sum => (expected - found).abs() <= SUM_OFF_MAX,
        Class::Ratio => {
            let (expected, found) = (hundredths(expected), hundredths(found));
            (expected - found).abs() <= RATIO_OFF_MAX * expected.abs()
        }
    }
}

/// A decimal without the zeros at its end.
fn trimmed(text: &str) -> &str {
    match text.split_once('.') {
        Some((_, fraction)) if fraction.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.trim_end_matches('0').trim_end_matches('.')
        }
        _ => text,
    }
}

fn shown(row: &[Cell]) -> String {
    let cells = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL"));
    cells.collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::super::queries::{self, query};
    use super::*;

    #[test]
    fn all_expected_answers_are_there_and_as_long_as_they_should_be() {
        // Row counts of the note that came with the answers.
        let counts = [
            "4 4 10 5 5 1 4 2 173 20 359 2 33 1 1 296 1 2 1 1 1 7",
            "4 44 10 5 5 1 4 2 175 20 2541 2 37 1 1 2762 1 5 1 9 47 7",
            "4 100 10 5 5 1 4 2 175 20 1048 2 42 1 1 18314 1 57 1 186 100 7",
        ];
        for (sf, counts) in scale_factors().zip(counts) {
            for (query, rows) in queries::all().zip(counts.split(' ')) {
                let answer = expected(query, sf).unwrap();
                assert_eq!(
                    answer.rows.len(),
                    rows.parse::<usize>().unwrap(),
                    "{sf} {}",
                    query.name()
                );
                assert!(
                    answer
                        .rows
                        .iter()
                        .all(|row| row.len() == query.columns.len())
                );
                assert_eq!(wrong(query, &answer, &answer), None);
            }
        }
        assert!(expected(query(1).unwrap(), 0.5).is_none());
    }

    fn edited(query: &TpchQuery, row: usize, column: usize, text: &str) -> (Answer, Answer) {
        let expected = expected(query, 0.01).unwrap();
        let mut found = expected.clone();
        found.rows[row][column] = Some(text.to_owned());
        (expected, found)
    }

    #[test]
    fn a_planted_value_is_found_with_its_row() {
        let q1 = query(1).unwrap();
        // A count that is one off.
        let (expected, found) = edited(q1, 2, 9, "29182");
        let difference = wrong(q1, &expected, &found).unwrap();
        assert_eq!((difference.query, difference.row), (1, 3));
        assert!(
            difference.to_string().contains("|29182, expected N|O|"),
            "{difference}"
        );
        // A sum within 100 is right by the specification, and not the same.
        let (expected, found) = edited(q1, 0, 2, "380456.01");
        assert_eq!(wrong(q1, &expected, &found), None);
        assert!(differ(q1, &expected, &found).is_some());
        let (expected, found) = edited(q1, 0, 2, "380557.00");
        assert!(wrong(q1, &expected, &found).is_some());
        // An average: by 1 %, and not by 2 %.
        let (expected, found) = edited(q1, 0, 6, "25.7");
        assert_eq!(wrong(q1, &expected, &found), None);
        let (expected, found) = edited(q1, 0, 6, "26.1");
        assert!(wrong(q1, &expected, &found).is_some());
        // The last digits of a DOUBLE.
        let (expected, found) = edited(q1, 0, 6, "25.575154611454700");
        assert_eq!(differ(q1, &expected, &found), None);
    }

    #[test]
    fn rows_that_are_missing_too_many_or_in_another_order_are_found() {
        let q4 = query(4).unwrap();
        let right = expected(q4, 0.01).unwrap();
        let mut found = right.clone();
        found.rows.pop();
        assert_eq!(wrong(q4, &right, &found).unwrap().found, None);
        found.rows = [right.rows.clone(), vec![right.rows[0].clone()]].concat();
        assert_eq!(wrong(q4, &right, &found).unwrap().expected, None);
        found.rows = right.rows.clone();
        found.rows.swap(0, 1);
        assert_eq!(wrong(q4, &right, &found).unwrap().row, 1);
        // NULL is no number, and no text.
        let q17 = query(17).unwrap();
        let null = expected(q17, 0.01).unwrap();
        assert_eq!(null.rows, [[None]]);
        let (_, mut found) = edited(q17, 0, 0, "0.0");
        assert!(wrong(q17, &null, &found).is_some());
        // A row of another width.
        found.rows[0].pop();
        assert!(wrong(q4, &right, &found).is_some());
    }

    #[test]
    fn ties_may_come_in_any_order() {
        let q11 = query(11).unwrap();
        let row = |key: &str, value: &str| vec![Some(key.to_owned()), Some(value.to_owned())];
        let answer = |rows: [Vec<Cell>; 3]| Answer {
            doubles: vec![false, false],
            rows: rows.into(),
        };
        let one = answer([row("7", "9.00"), row("1", "5.00"), row("2", "5.00")]);
        let other = answer([row("7", "9.00"), row("2", "5.0"), row("1", "5")]);
        assert_eq!(differ(q11, &one, &other), None);
        let other = answer([row("2", "5.00"), row("7", "9.00"), row("1", "5.00")]);
        assert!(differ(q11, &one, &other).is_some());
    }
}
