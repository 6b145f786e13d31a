//! The report for a terminal: the same charts as bars of text.

use std::fmt::Write;

use dpb_core::measure::Record;

use super::bars::Bars;
use super::heat::Map;
use super::{
    Found, advice, character, glance, of_task, overview, page, pays, ranking, sensitivity, woo,
};
use crate::shown::ShownTasks;

/// So many charts of a task are drawn; the page has all.
const CHARTS_MAX: usize = 6;

/// The report as text, for a terminal of `columns` characters.
pub fn text(records: &[Record], warnings: &[String], known: &ShownTasks, columns: usize) -> String {
    let found = Found::of(records, known);
    let mut text = format!("{}\n", overview(records));
    for warning in warnings {
        let _ = writeln!(text, "{warning}");
    }
    if !found.advice.is_empty() {
        push(&mut text, advice::TITLE, &[advice::text(&found.advice)]);
    }
    for verdict in found.verdicts() {
        let _ = writeln!(text, "\n{verdict}");
    }
    for contests in [&found.platforms, &found.sides] {
        text.push('\n');
        text.push_str(&glance::winners_text(contests));
    }
    text.push_str("\nPlatforms\n");
    for (host, own) in glance::machines(records) {
        let _ = writeln!(
            text,
            "  {host}: {}, {} CPUs",
            own[0].provenance.cpu_model, own[0].provenance.cpus
        );
        text.push_str(&glance::bounds_text(&own));
    }
    let drawn: Vec<String> = found
        .dpbento
        .iter()
        .map(|bars: &Bars| bars.to_text(columns))
        .collect();
    push(
        &mut text,
        "As in dpBento; published numbers are marked, and no ratio is drawn to them",
        &drawn,
    );
    if let Some(figures) = &found.woo {
        let bars = figures.bars.iter().map(|bars| bars.to_text(columns));
        let said = figures.said.iter().map(|sentence| format!("{sentence}\n"));
        let drawn: Vec<String> = bars.chain(said).collect();
        push(&mut text, woo::TITLE, &drawn);
    }
    if let Some(ranked) = &found.ranked {
        let said = [ranking::verdict(ranked), ranked.notes.join("\n")].join("\n");
        push(
            &mut text,
            "Ranking",
            &[said + "\n", ranking::overall(ranked).to_text()],
        );
    }
    for name in found.tasks() {
        let mut drawn: Vec<String> = Vec::new();
        if let Some(task) = known.find(name) {
            drawn.extend(found.maps(name).take(CHARTS_MAX).map(Map::to_text));
            let charts = [found.charts(task), found.distributions(task)];
            for charts in charts {
                drawn.extend(
                    charts
                        .iter()
                        .take(CHARTS_MAX)
                        .map(|chart| chart.to_text(columns)),
                );
            }
        }
        drawn.extend(character::text(&of_task(records, name)));
        drawn.extend(pays::text(&of_task(records, name), &found.origins));
        if name == sensitivity::TASK {
            drawn.extend(sensitivity::text(&found.sweeps));
        }
        drawn.push(page::text_table(known.find(name), &of_task(records, name), &[]).to_text());
        push(&mut text, name, &drawn);
    }
    text
}

/// A section, if it has anything.
fn push(text: &mut String, title: &str, parts: &[String]) {
    if parts.is_empty() {
        return;
    }
    let _ = write!(text, "\n{title}\n{}\n", "=".repeat(title.chars().count()));
    for part in parts {
        let _ = write!(text, "\n{part}");
    }
}
