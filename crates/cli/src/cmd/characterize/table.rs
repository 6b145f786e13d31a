//! The table of `dpb characterize`: one row a record.

use std::collections::BTreeSet;

use dpb_core::measure::{Outcome, Record};

use crate::cmd::sweep::{self, parameter};
use crate::output::{Column, Table, evidence, percent, short, verdict};

/// A column of figures: title, figure, how it is written.
type Figure = (&'static str, &'static str, fn(f64) -> String);

const FIGURES: [Figure; 8] = [
    ("instructions/item", "instructions_per_item", short),
    ("IPC", "instructions_per_cycle", hundredths),
    ("integer", "integer_share", percent),
    ("branch", "branch_share", percent),
    ("load, store", "load_store_share", percent),
    ("L1D/1000", "l1d_misses_per_1000", hundredths),
    ("iTLB/1000", "itlb_misses_per_1000", hundredths),
    ("dTLB/1000", "dtlb_misses_per_1000", hundredths),
];

fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

pub(super) fn for_people(records: &[Record]) -> Table {
    let has = |figure: &str| {
        records
            .iter()
            .any(|record| record.summary.contains_key(figure))
    };
    let figures: Vec<_> = FIGURES
        .into_iter()
        .filter(|(_, figure, _)| has(figure))
        .collect();
    let mut columns = vec![
        Column::left("operator or program"),
        Column::right("size"),
        Column::left("backend"),
    ];
    columns.extend(figures.iter().map(|(title, ..)| Column::right(*title)));
    columns.extend(["counted by", "evidence"].map(Column::left));
    columns.push(Column::noted("verdict"));
    let mut table = Table::new(columns);
    for record in records {
        let mut row = vec![
            format!(
                "{}{}",
                parameter(record, "operator"),
                parameter(record, "program")
            ),
            parameter(record, "size"),
            parameter(record, "backend"),
        ];
        for (_, figure, text) in &figures {
            let summary = record.summary.get(*figure);
            row.push(summary.map_or_else(|| "-".to_owned(), |it| text(it.median)));
        }
        let said = match record.outcome {
            Outcome::Done => "counted".to_owned(),
            _ => verdict(record),
        };
        row.extend([
            parameter(record, "source"),
            evidence(record).to_owned(),
            said,
        ]);
        table.row(row);
    }
    table
}

pub(super) fn for_machines(records: &[Record]) -> Table {
    let figures: BTreeSet<&str> = records
        .iter()
        .flat_map(|record| record.summary.keys().map(String::as_str))
        .collect();
    let figures: Vec<&str> = figures.into_iter().collect();
    let parameters = [
        "operator", "program", "size", "batch", "backend", "source", "geometry",
    ];
    sweep::for_machines(records, &parameters, &figures)
}
