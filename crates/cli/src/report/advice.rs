//! Advice in reports: what was said, what it rests on, and whether it came true.

use std::fmt::Write;

use dpb_core::measure::Record;

use super::html::escape;
use super::pays::bytes;
use crate::output::{Column, Table, percent};

/// The section's title.
pub(super) const TITLE: &str = "What to move";

/// Findings of a record of advice, in the order in which a reader wants them.
const FINDINGS: [(&str, &str); 21] = [
    ("verdict", "advice"),
    ("bound", "limited by"),
    ("measure_next", "measure next"),
    ("cores_freed", "cores freed"),
    ("price", "price"),
    ("power", "power"),
    ("split", "split"),
    ("limit", "limit"),
    ("capacity", "capacity"),
    ("rate_threshold", "rates"),
    ("batch", "batch"),
    ("depth", "depth"),
    ("knob", "setting"),
    ("assumes", "assumes"),
    ("host_model", "host"),
    ("device_model", "device"),
    ("gain_model", "gain"),
    ("would_prove_it_wrong", "would prove it wrong"),
    ("sha256", "sha256 of the predictions"),
    ("score", "measured afterwards"),
    ("misses", "missed"),
];

/// The records that advise.
pub(super) fn of(records: &[Record]) -> Vec<&Record> {
    records
        .iter()
        .filter(|record| record.task == "advise" && record.findings.contains_key("verdict"))
        .collect()
}

/// The question of a record, in a few words.
fn question(record: &Record) -> String {
    let of = |name: &str| record.parameters.get(name).map(ToString::to_string);
    match (of("operator"), of("host"), of("device"), of("goal")) {
        (Some(operator), Some(host), Some(device), Some(goal)) => {
            format!("{operator}, {host} to {device}, {goal}")
        }
        (.., goal) => {
            let link = of("link").and_then(|link| link.parse::<f64>().ok());
            let link = link.map_or(String::new(), |bits| format!(", {} Gbit/s", bits / 1e9));
            format!("{}{link}", goal.unwrap_or_default())
        }
    }
}

/// A table for a terminal.
pub(super) fn text(advice: &[&Record]) -> String {
    let mut table = Table::new([
        Column::left("question"),
        Column::left("advice"),
        Column::right("threshold"),
        Column::right("gain at most bytes"),
        Column::right("intervals held"),
        Column::right("decisions right"),
    ]);
    for record in advice {
        table.row(row(record));
    }
    table.to_text()
}

fn row(record: &Record) -> [String; 6] {
    let median = |name: &str| record.summary.get(name).map(|summary| summary.median);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let threshold = median("threshold_bytes").map(bytes);
    let threshold = threshold.or_else(|| median("threshold_selectivity").map(percent));
    [
        question(record),
        record.findings.get("verdict").cloned().unwrap_or_default(),
        or_none(threshold),
        or_none(median("gain").map(|gain| format!("{gain:.2}x"))),
        or_none(median("coverage").map(percent)),
        or_none(median("right").map(percent)),
    ]
}

/// A section of a page, with all findings.
pub(super) fn html(advice: &[&Record]) -> String {
    let mut html = format!(
        "<section id=\"advice\"><h2>{TITLE}</h2><p class=\"sub\">Predictions, and no measurements. Each says which records it rests on and which tests would prove it wrong.</p>"
    );
    for record in advice {
        let _ = write!(
            html,
            "<details class=\"more\"><summary>{}: <b>{}</b></summary><div class=\"wide\"><table><tbody>",
            escape(&question(record)),
            escape(record.findings.get("verdict").map_or("", String::as_str))
        );
        for (name, title) in FINDINGS {
            if let Some(said) = record.findings.get(name) {
                let lines: Vec<String> = said.lines().map(escape).collect();
                let _ = write!(
                    html,
                    "<tr><th>{title}</th><td>{}</td></tr>",
                    lines.join("<br>")
                );
            }
        }
        html.push_str("</tbody></table></div></details>");
    }
    html + "</section>"
}

#[cfg(test)]
mod tests {
    use dpb_core::Evidence;

    use super::*;

    #[test]
    fn advice_is_shown_with_what_would_prove_it_wrong() {
        let evidence = Evidence::Predicted {
            model: "m".to_owned(),
            from: vec!["one".to_owned()],
        };
        let mut record = Record::new("advise", evidence, 1)
            .with("operator", "deflate")
            .with("host", "cpu/best")
            .with("device", "pool/1")
            .with("goal", "latency");
        for (name, text) in [
            ("verdict", "move from 4096 B on"),
            ("would_prove_it_wrong", "dpb op a\ndpb op <b>"),
        ] {
            record.findings.insert(name.to_owned(), text.to_owned());
        }
        let page = html(&of(std::slice::from_ref(&record)));
        assert!(
            page.contains("move from 4096 B on") && page.contains("dpb op a<br>dpb op &lt;b&gt;")
        );
        let said = text(&[&record]);
        assert!(
            said.contains("deflate, cpu/best to pool/1, latency") && said.contains("move from")
        );
        record.findings.clear();
        assert_eq!(of(&[record]), Vec::<&Record>::new());
    }
}
