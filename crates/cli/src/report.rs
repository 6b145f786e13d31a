//! One HTML file from records: charts first, tables under them, every number's record one click away. It refers to
//! nothing outside itself.

mod chart;
mod html;
mod origin;
mod page;
pub mod published;
mod select;

use std::collections::BTreeSet;
use std::fmt::Write;

use dpb_core::measure::{Outcome, Record};

use crate::output::Table;
use crate::task::{Task, Tasks};

/// So many charts of a task are open at first; the rest is folded.
const CHARTS_SHOWN: usize = 8;

/// The page. Papers' figures for the same work are drawn beside `records`, as their own kind of evidence; `warnings` (damaged
/// lines, for one) stand at the top.
pub fn html(records: &[Record], warnings: &[String], known: Tasks) -> String {
    let figures = select::published_for(records, known);
    let mut html = String::from(page::HEAD);
    html.push_str("<h1>dpb report</h1>");
    let _ = write!(
        html,
        "<p class=\"sub\">{}</p>",
        html::escape(&overview(records))
    );
    for warning in warnings {
        let _ = write!(html, "<p class=\"warn\">{}</p>", html::escape(warning));
    }
    let origins = origin::Origins::of(records);
    let tasks: BTreeSet<&str> = records.iter().map(|record| record.task.as_str()).collect();
    for task in &tasks {
        let own: Vec<&Record> = of_task(records, task);
        let declared = known.find(task);
        let charts = declared.map_or_else(Vec::new, |task| {
            select::charts(task, records, &figures, &origins)
        });
        let _ = write!(html, "<section><h2>{}</h2>", html::escape(task));
        let (first, more) = charts.split_at(charts.len().min(CHARTS_SHOWN));
        html.push_str(&grid(first));
        if !more.is_empty() {
            let _ = write!(
                html,
                "<details class=\"more\"><summary>{} more charts</summary>{}</details>",
                more.len(),
                grid(more)
            );
        }
        html.push_str(&page::table(declared, &own, &origins));
        let published = of_task(&figures, task);
        if !published.is_empty() {
            html.push_str("<h3 class=\"beside\">Published, for comparison</h3>");
            html.push_str(&page::table(declared, &published, &origins));
        }
        html.push_str("</section>");
    }
    html.push_str("<section><h2>Where it was measured</h2>");
    html.push_str(&page::provenance(records, &origins));
    html.push_str("</section><section><h2>Records</h2>");
    let all: Vec<&Record> = records.iter().chain(&figures).collect();
    html.push_str(&page::records(&all));
    html.push_str("</section>");
    html + page::FOOT
}

fn of_task<'a>(records: &'a [Record], task: &str) -> Vec<&'a Record> {
    records
        .iter()
        .filter(|record| record.task == task)
        .collect()
}

fn grid(charts: &[chart::Chart]) -> String {
    let charts: String = charts.iter().map(chart::Chart::html).collect();
    format!("<div class=\"charts\">{charts}</div>")
}

fn overview(records: &[Record]) -> String {
    let count =
        |is: fn(&Outcome) -> bool| records.iter().filter(|record| is(&record.outcome)).count();
    let parts = [
        (count(|outcome| *outcome == Outcome::Done), "done"),
        (
            count(|outcome| matches!(outcome, Outcome::Failed { .. })),
            "failed",
        ),
        (
            count(|outcome| matches!(outcome, Outcome::Unsupported { .. })),
            "unsupported",
        ),
        (
            count(|outcome| *outcome == Outcome::Interrupted),
            "interrupted",
        ),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!(
        "{} tests: {}. Medians with 95 % intervals; each record says against what it was checked.",
        records.len(),
        parts.join(", ")
    )
}

/// A task's records as rows: the parameters that differ, and the metrics that are `wanted`, or all of the task's.
pub fn text_table(task: Option<&Task>, records: &[&Record], wanted: &[&String]) -> Table {
    page::text_table(task, records, wanted)
}

/// A record's place on the page.
fn anchor(record: &Record) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || ".-_".contains(c) {
            c
        } else {
            '-'
        }
    };
    format!("r-{}", record.id.chars().map(safe).collect::<String>())
}

#[cfg(test)]
mod tests;
