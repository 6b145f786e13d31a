//! DPUBench's table 5 beside records of `dpb characterize`: the operators that stand for each of its programs, there and here.

use dpb_insight::components::coverage::Coverage;
use dpb_insight::dpubench::{Represented, TABLE_5};
use dpb_insight::profile::Row;

use crate::output::{Column, Table};

/// The reason for differences, below the table.
pub(super) const WHY: &str = "The paper names neither versions nor inputs of its programs, defines none of its figures, and most of its operators do not \
                              compute what they are called. So a program may be nearest to another operator here: this one's distances are those of the \
                              components above, of code that dpb runs.";

/// A line for each program of the table, if one of them was watched.
pub(super) fn table(rows: &[Row], coverage: &Coverage) -> Option<Table> {
    let operators: Vec<&Row> = rows.iter().filter(|row| !row.is_program).collect();
    let programs = rows.iter().filter(|row| row.is_program);
    let nearest: Vec<(&str, &str)> = programs
        .zip(&coverage.nearest)
        .map(|(program, near)| (program.name.as_str(), operators[near.at].name.as_str()))
        .collect();
    let watched = |row: &Represented| {
        let mut ours = nearest.iter();
        ours.find(|(program, _)| row.is_done_by(program))
    };
    if !TABLE_5.iter().any(|row| watched(row).is_some()) {
        return None;
    }
    let columns = [
        "program",
        "operators of the paper",
        "watched here",
        "nearest",
        "as in the paper",
    ];
    let mut table = Table::new(columns.map(Column::left));
    for row in &TABLE_5 {
        let [program, near, same] = match watched(row) {
            Some(&(program, near)) => {
                let is_same = row.ours.contains(&first_word(near));
                [program, near, if is_same { "yes" } else { "no" }]
            }
            None => ["not watched", "", ""],
        };
        let theirs: Vec<String> = (row.operators.iter().zip(row.ours))
            .map(|(theirs, ours)| format!("{theirs} ({ours})"))
            .collect();
        table.row([row.program, &theirs.join(", "), program, near, same].map(str::to_owned));
    }
    Some(table)
}

fn first_word(words: &str) -> &str {
    words.split_whitespace().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use dpb_insight::components::coverage::Neighbour;

    use super::*;

    fn row(name: &str, is_program: bool) -> Row {
        Row {
            name: name.to_owned(),
            is_program,
            values: Vec::new(),
        }
    }

    #[test]
    fn programs_of_the_paper_have_lines_once_one_was_watched() {
        let near = |at| Neighbour {
            at,
            distance: 1.0,
            is_inside: false,
        };
        let coverage = |nearest: Vec<Neighbour>| Coverage {
            dimensions: 2,
            points: nearest.len(),
            inside: 0,
            planes: Vec::new(),
            nearest,
            spacing: 1.0,
            p_value: 1.0,
            deals: 1,
        };
        let rows = [
            row("deflate", false),
            row("gzip -c {input}", true),
            row("lz4 64 cpu/words", false),
            row("sha256sum {input}", true),
            row("dpb net forward --port capture:{capture}", true),
        ];
        let text = table(&rows, &coverage(vec![near(0), near(1), near(1)]))
            .expect("three programs of the table")
            .to_text();
        let line = |name: &str| {
            let mut lines = text.lines();
            let line = lines.find(|line| line.trim_start().starts_with(name));
            line.expect("a line").to_owned()
        };
        assert!(line("File-Compress").trim_end().ends_with("yes"));
        assert!(line("File-Integrity").contains("lz4 64 cpu/words"));
        assert!(line("File-Integrity").trim_end().ends_with("no"));
        assert!(line("L3fwd").contains("dpb net forward"));
        assert!(line("IPSec").contains("not watched"));
        let others = [row("deflate", false), row("zstd -q -c {input}", true)];
        assert!(table(&others, &coverage(vec![near(0)])).is_none());
    }
}
