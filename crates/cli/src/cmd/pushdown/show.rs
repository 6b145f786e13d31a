//! What a person sees of a sweep: one row a scheme and test.

use dpb_core::measure::Ratio;
use dpb_dbmods::compare::{Scheme, SchemeResult, SchemeRun};

use crate::output::{Column, Table, short, short_ns, verdict};

/// The table's columns.
pub fn table() -> Table {
    Table::new([
        Column::left("query"),
        Column::left("scheme"),
        Column::right("threads"),
        Column::right("selected"),
        Column::right("tuples/s"),
        Column::right("95 % CI"),
        Column::right("vs fetch"),
        Column::right("rows"),
        Column::right("MB on wire"),
        Column::right("first batch"),
        Column::right("CPU s agent"),
        Column::right("CPU s client"),
        Column::right("peak MB agent"),
        Column::right("added MB client"),
        Column::noted("verdict"),
    ])
}

/// Adds the rows of one test.
pub fn add(table: &mut Table, findings: &[SchemeResult], query: &str) {
    let fetch = fastest_fetch(findings);
    for finding in findings {
        let Some(last) = finding.runs.last() else {
            let mut cells = vec![
                query.to_owned(),
                finding.scheme.label().to_owned(),
                finding.threads.to_string(),
            ];
            cells.extend(std::iter::repeat_n(String::new(), 11));
            cells.push(verdict(&finding.record));
            table.row(cells);
            continue;
        };
        let median = |name: &str| finding.record.summary.get(name).map_or(0.0, |s| s.median);
        let interval = finding
            .record
            .summary
            .get("tuples_per_s")
            .and_then(|s| Some(format!("{}..{}", short(s.ci95_low?), short(s.ci95_high?))));
        table.row([
            query.to_owned(),
            finding.scheme.label().to_owned(),
            finding.threads.to_string(),
            finding.selectivity.map_or_else(|| "-".to_owned(), percent),
            short(median("tuples_per_s")),
            interval.unwrap_or_default(),
            versus(finding, fetch),
            last.rows.to_string(),
            format!("{:.2}", wire_mb(last)),
            short_ns(median("first_batch_s") * 1e9),
            format!("{:.3}", median("agent_cpu_s")),
            format!("{:.3}", median("client_cpu_s")),
            format!("{:.0}", median("agent_peak_bytes") / 1e6),
            format!("{:.0}", median("client_added_bytes") / 1e6),
            verdict(&finding.record),
        ]);
    }
}

/// Of the two kinds of fetch, the one that counts.
fn fastest_fetch(findings: &[SchemeResult]) -> Option<&SchemeResult> {
    findings
        .iter()
        .filter(|finding| finding.scheme.name() == Scheme::FetchDuckDb.name())
        .filter(|finding| finding.tuples_per_s().is_some())
        .max_by(|a, b| {
            a.tuples_per_s()
                .partial_cmp(&b.tuples_per_s())
                .expect("no NaN")
        })
}

fn versus(finding: &SchemeResult, fetch: Option<&SchemeResult>) -> String {
    // Kinds of evidence make no ratio, nor do bodies that came different ways.
    let fetch = fetch.filter(|fetch| {
        let (theirs, ours) = (&fetch.record, &finding.record);
        theirs.evidence == ours.evidence
            && theirs.parameters.get("bulk") == ours.parameters.get("bulk")
    });
    let Some(ratio) = fetch.and_then(|fetch| Ratio::of(&finding.rates(), &fetch.rates())) else {
        return String::new();
    };
    let is_itself = fetch.map(|fetch| fetch.scheme) == Some(finding.scheme);
    let unsure = match is_itself || ratio.is_decided() {
        true => "",
        false => " ?",
    };
    format!("{:.2}x{unsure}", ratio.median)
}

fn wire_mb(run: &SchemeRun) -> f64 {
    (run.wire_bytes.0 + run.wire_bytes.1) as f64 / 1e6
}

fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use dpb_core::measure::{Evidence, Record};

    use super::*;

    fn finding(scheme: Scheme, bulk: &str, evidence: Evidence) -> SchemeResult {
        let run = |tuples_scanned| SchemeRun {
            tuples_scanned,
            elapsed_s: 1.0,
            ..SchemeRun::default()
        };
        SchemeResult {
            scheme,
            threads: 1,
            selectivity: None,
            runs: (1000..1010).map(run).collect(),
            record: Record::new("pushdown", evidence, 1).with("bulk", bulk),
        }
    }

    #[test]
    fn what_came_another_way_or_is_other_evidence_makes_no_ratio() {
        let fetch = finding(Scheme::FetchDuckDb, "tcp", Evidence::Measured);
        let against = |bulk, evidence| versus(&finding(Scheme::Dpb, bulk, evidence), Some(&fetch));
        assert!(against("tcp", Evidence::Measured).starts_with("1.00x"));
        assert_eq!(against("rdma/mlx5_0", Evidence::Measured), "");
        let by = "soft-RoCE (rxe)".to_owned();
        assert_eq!(against("tcp", Evidence::Emulated { by }), "");
    }
}
