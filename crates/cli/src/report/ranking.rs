//! The ranking of platforms as tables, for a terminal and for the page.

use std::fmt::Write;

use dpb_core::measure::Record;
use dpb_insight::rank::{Class, Rank, Ranking, Test};

use super::bars::{Bar, Bars, Group};
use super::html::escape;
use super::ranked::{Ranked, Wanted, rank};
use crate::output::{Column, Table};
use crate::shown::ShownTasks;

/// A rank up to this is a strength, as in the table of Liu et al.
pub const BEST: usize = 10;
/// The place of the section on the page.
const PLACE: &str = "rank";
/// Platforms whose tables are open on the page; the others' are folded.
const OPEN_MAX: usize = 2;

/// The ranking that a page of these records shows: of its platforms, or of its one platform beside those of papers. `None` if there is nothing to rank.
pub(super) fn of(records: &[Record], known: &ShownTasks) -> Option<Ranked> {
    let own = rank(records, known, &Wanted::default());
    let beside = || {
        let wanted = Wanted {
            published: true,
            across_evidence: true,
            ..Wanted::default()
        };
        rank(records, known, &wanted)
    };
    let ranked = own.or_else(|_| beside()).ok()?;
    (!ranked.ranking.classes.is_empty()).then_some(ranked)
}

/// Each platform over all tests.
pub fn overall(ranked: &Ranked) -> Table {
    let ranking = &ranked.ranking;
    let against = &ranking.platforms[ranking.reference];
    let mut table = Table::new([
        Column::right("rank"),
        Column::left("platform"),
        Column::right(format!("geometric mean of ratios to {against}")),
        Column::right("95 % interval"),
        Column::right("mean z-score"),
        Column::right("rank by z"),
        Column::left("evidence"),
    ]);
    for (at, standing) in in_order(ranking.classes.first()) {
        let interval = standing.geometric_interval;
        table.row([
            standing.rank.to_string(),
            ranking.platforms[at].clone(),
            ratio(standing.geometric),
            interval.map_or_else(
                || "-".to_owned(),
                |(low, high)| format!("{} .. {}", ratio(low), ratio(high)),
            ),
            format!("{:.2}", standing.z_score.0),
            standing.rank_by_z.to_string(),
            ranked.kinds[at].to_owned(),
        ]);
    }
    table
}

/// Each class: who may be first in it, and the place of one platform.
pub fn classes(ranking: &Ranking, platform: usize) -> Table {
    let mut table = Table::new([
        Column::left("class"),
        Column::right("tests"),
        Column::right("rank"),
        Column::right("geometric mean"),
        Column::right("95 % interval"),
        Column::right("mean z-score"),
        Column::left("first by value"),
    ]);
    for class in &ranking.classes[1.min(ranking.classes.len())..] {
        let own = &class.standings[platform];
        let interval = own.geometric_interval;
        let first = in_order(Some(class)).into_iter().next();
        table.row([
            class.name.clone().unwrap_or_default(),
            class.tests.to_string(),
            own.rank.to_string(),
            ratio(own.geometric),
            interval.map_or_else(
                || "-".to_owned(),
                |(low, high)| format!("{} .. {}", ratio(low), ratio(high)),
            ),
            format!("{:.2}", own.z_score.0),
            first.map_or_else(String::new, |(at, _)| ranking.platforms[at].clone()),
        ]);
    }
    table
}

/// A platform's strengths, then its weaknesses: tests, classes, ranks.
pub fn strengths(ranking: &Ranking, platform: usize, best: usize) -> Table {
    let mut table = Table::new([
        Column::left("test"),
        Column::left("classes"),
        Column::right("rank"),
        Column::right("z-score"),
        Column::right("ratio"),
    ]);
    let [first, last] = ranking.strengths(platform, best);
    for (test, rank) in first.into_iter().chain(last) {
        table.row(row(test, platform, rank));
    }
    table
}

fn row(test: &Test, platform: usize, rank: Rank) -> [String; 5] {
    let place = test.places[platform].as_ref();
    let figure =
        |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    [
        test.name.clone(),
        test.classes.join(" | "),
        rank.to_string(),
        figure(place.and_then(|place| place.z_score)),
        place
            .and_then(|place| place.ratio)
            .map_or_else(|| "-".to_owned(), ratio),
    ]
}

/// The pairs of platforms that change their order when one is left out; empty if none does.
pub fn left_out(ranked: &Ranked) -> Table {
    let mut table = Table::new([
        Column::left("left out"),
        Column::right("tests"),
        Column::left("pairs that change order by mean z-score"),
        Column::left("by geometric mean"),
    ]);
    let pairs = |pairs: &[(String, String)]| {
        let pairs: Vec<String> = pairs
            .iter()
            .map(|(one, other)| format!("{one} / {other}"))
            .collect();
        match pairs.is_empty() {
            true => "none".to_owned(),
            false => pairs.join(", "),
        }
    };
    for one in &ranked.left_out {
        table.row([
            one.platform.clone(),
            one.tests.to_string(),
            pairs(&one.swapped_by_z),
            pairs(&one.swapped_by_geometric),
        ]);
    }
    table
}

/// Every test on every platform.
pub fn every(ranking: &Ranking) -> Table {
    let mut table = Table::new([
        Column::left("test"),
        Column::left("classes"),
        Column::left("platform"),
        Column::right("mean"),
        Column::right("runs"),
        Column::right("z_score"),
        Column::right("ratio"),
        Column::right("rank"),
        Column::right("rank_best"),
        Column::right("rank_worst"),
    ]);
    for test in &ranking.tests {
        for (platform, place) in ranking.platforms.iter().zip(&test.places) {
            let Some(place) = place else {
                continue;
            };
            let figure =
                |figure: Option<f64>| figure.map_or_else(String::new, |value| value.to_string());
            table.row([
                test.name.clone(),
                test.classes.join(" | "),
                platform.clone(),
                place.mean.to_string(),
                place.runs.to_string(),
                figure(place.z_score),
                figure(place.ratio),
                place.rank.rank.to_string(),
                place.rank.best.to_string(),
                place.rank.worst.to_string(),
            ]);
        }
    }
    table
}

/// The standings of a class, the first rank first.
fn in_order(class: Option<&Class>) -> Vec<(usize, &dpb_insight::rank::Standing)> {
    let standings = class
        .into_iter()
        .flat_map(|class| class.standings.iter().enumerate());
    let mut standings: Vec<_> = standings.collect();
    standings.sort_by(|(_, a), (_, b)| b.geometric.total_cmp(&a.geometric));
    standings
}

/// Three digits, whatever the size.
fn ratio(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        value => format!("{value:.2e}"),
    }
}

/// Who leads, in a sentence.
pub fn verdict(ranked: &Ranked) -> String {
    let ranking = &ranked.ranking;
    let Some(all) = ranking.classes.first() else {
        return "No test is on all platforms.".to_owned();
    };
    let leads = in_order(Some(all))
        .into_iter()
        .filter(|(_, standing)| standing.rank.best == 1);
    let leads: Vec<&str> = leads
        .map(|(at, _)| ranking.platforms[at].as_str())
        .collect();
    let among = format!("{} platforms, {} tests", ranking.platforms.len(), all.tests);
    match &leads[..] {
        [one] => format!("{one} is first of {among}."),
        _ => format!("Of {among}, these may be first: {}.", leads.join(", ")),
    }
}

/// The section of the page.
pub(super) fn html(ranked: &Ranked) -> String {
    let ranking = &ranked.ranking;
    let mut html = format!(
        "<section id=\"{PLACE}\"><h2>Ranking</h2><p class=\"verdict\">{}</p>",
        escape(&verdict(ranked))
    );
    for note in &ranked.notes {
        let _ = write!(html, "<p class=\"mixed\">{}</p>", escape(note));
    }
    html.push_str("<p class=\"sub\">3 (2-5): third by value, and by the intervals anything from second to fifth. METHODOLOGY.md, \"Platforms\", says how.</p>");
    let _ = write!(html, "<div class=\"charts\">{}</div>", bars(ranked).html());
    html.push_str(&table_html(&overall(ranked)));
    if !ranked.left_out.is_empty() {
        html.push_str("<details class=\"more\"><summary>Without each platform in turn</summary>");
        html.push_str(&table_html(&left_out(ranked)));
        html.push_str("</details>");
    }
    // What was measured here comes first.
    let mut platforms: Vec<usize> = (0..ranking.platforms.len()).collect();
    platforms.sort_by_key(|at| ranked.kinds[*at] != "measured");
    for (place, at) in platforms.into_iter().enumerate() {
        let open = if place < OPEN_MAX {
            " open=\"open\""
        } else {
            ""
        };
        let _ = write!(
            html,
            "<details class=\"more\"{open}><summary>{}: ranks up to {BEST}, and last ones</summary>{}<h3 class=\"beside\">By class</h3>{}</details>",
            escape(&ranking.platforms[at]),
            table_html(&strengths(ranking, at, BEST)),
            table_html(&classes(ranking, at)),
        );
    }
    html + "</section>"
}

/// Geometric means with their intervals.
fn bars(ranked: &Ranked) -> Bars {
    let ranking = &ranked.ranking;
    let against = &ranking.platforms[ranking.reference];
    let bar = |(at, standing): (usize, &dpb_insight::rank::Standing)| Bar {
        name: format!("{} {}", standing.rank, ranking.platforms[at]),
        kind: ranked.kinds[at],
        colour: 0,
        value: standing.geometric,
        interval: standing.geometric_interval,
        is_unstable: false,
        tip: format!(
            "{}: {} times {against}, rank {}",
            ranking.platforms[at],
            ratio(standing.geometric),
            standing.rank
        ),
        href: PLACE.to_owned(),
    };
    Bars {
        title: format!("Geometric mean of all tests, {against} is 1"),
        notes: ranked.notes.clone(),
        label: "times as much work in a second".to_owned(),
        text: ratio,
        may_be_log: false,
        groups: vec![Group {
            name: String::new(),
            bars: in_order(ranking.classes.first())
                .into_iter()
                .map(bar)
                .collect(),
        }],
    }
}

/// A table of the page.
pub(super) fn table_html(table: &Table) -> String {
    let (titles, rows) = table.parts();
    let class = |is_number: bool| if is_number { " class=\"n\"" } else { "" };
    let mut html = String::from("<div class=\"wide\"><table><thead><tr>");
    for (title, is_number) in &titles {
        let _ = write!(html, "<th{}>{}</th>", class(*is_number), escape(title));
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        html.push_str("<tr>");
        for (cell, (_, is_number)) in row.iter().zip(&titles) {
            let _ = write!(html, "<td{}>{}</td>", class(*is_number), escape(cell));
        }
        html.push_str("</tr>");
    }
    html + "</tbody></table></div>"
}
