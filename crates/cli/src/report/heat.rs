//! Heat maps of ratios, as DPUBench's figure 12: a table, so that figures keep their size and need no colour.

use std::fmt::Write;

use super::anchor;
use super::contest::{Contest, Gain, Standing};
use super::html::escape;

/// Ratios of one side to another.
pub(super) struct Map {
    /// The task of its tests.
    pub(super) task: &'static str,
    title: String,
    note: String,
    /// The title of the rows and of the columns.
    corner: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<Cell>>)>,
}

/// One ratio.
#[derive(Clone)]
struct Cell {
    gain: Gain,
    tip: String,
    href: String,
}

/// A ratio's place in a map, before the maps are cut.
struct Entry<'c> {
    contest: &'c Contest<'c>,
    side: String,
    base: String,
    cell: Cell,
}

/// Ratios from here on have the full colour; below one over it the other one.
const FULL: f64 = 4.0;

/// What the ratios of a map share: the task, the side and the base, and the work where each has a map of its own.
type Key = (&'static str, String, String, String);

/// The maps of all contests: of each side to `base`, or to the task's own base.
pub(super) fn maps(contests: &[Contest<'_>], base: Option<&str>) -> Vec<Map> {
    let mut kept: Vec<(Key, Vec<Entry<'_>>)> = Vec::new();
    for entry in entries(contests, base) {
        // Where more than the columns varies, each work has a map of its own.
        let work = match entry.contest.setting.len() {
            0 | 1 => String::new(),
            _ => entry.contest.work.clone(),
        };
        let task = entry.contest.task.name;
        let key = (task, entry.side.clone(), entry.base.clone(), work);
        match kept.iter_mut().find(|(other, _)| *other == key) {
            Some((_, entries)) => entries.push(entry),
            None => kept.push((key, vec![entry])),
        }
    }
    let with_several = kept.into_iter().filter(|(_, entries)| entries.len() > 1);
    with_several
        .map(|((task, side, base, work), entries)| Map::of(task, &side, &base, &work, &entries))
        .collect()
}

fn entries<'c>(contests: &'c [Contest<'c>], base: Option<&str>) -> Vec<Entry<'c>> {
    let mut entries = Vec::new();
    for contest in contests {
        let own = contest.task.view.base.map(|own| own.base);
        let Some(base) = base.or(own) else { continue };
        let Some(of_base) = contest.of(base) else {
            continue;
        };
        for side in contest.sides.iter().filter(|side| side.name != base) {
            let Some(gain) = Gain::of(contest.metric, side.record, of_base) else {
                continue;
            };
            let doubt = gain.standing.doubt();
            let median = |record: &dpb_core::measure::Record| {
                let number = record.summary.get(contest.metric.name);
                number.map_or_else(
                    || "-".to_owned(),
                    |number| (contest.metric.text)(number.median),
                )
            };
            let tip = format!(
                "{}, {}: {} {}, {base} {}: {:.2} times as good{doubt}",
                contest.work,
                contest.setting_text(),
                side.name,
                median(side.record),
                median(of_base),
                gain.times
            );
            entries.push(Entry {
                contest,
                side: side.name.clone(),
                base: base.to_owned(),
                cell: Cell {
                    gain,
                    tip,
                    href: anchor(side.record),
                },
            });
        }
    }
    entries
}

impl Map {
    fn of(task: &'static str, side: &str, base: &str, work: &str, entries: &[Entry<'_>]) -> Self {
        let column = |entry: &Entry<'_>| entry.contest.setting.first().map(|(_, value)| *value);
        let mut values: Vec<Option<f64>> = entries.iter().map(column).collect();
        values.sort_by(|a, b| a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0)));
        values.dedup();
        let axis = entries
            .iter()
            .find_map(|entry| entry.contest.setting.first());
        let text = |value: &Option<f64>| match (axis, value) {
            (Some((sweep, _)), Some(value)) => (sweep.text)(*value),
            _ => String::new(),
        };
        let mut rows: Vec<(String, Vec<Option<Cell>>)> = Vec::new();
        for entry in entries {
            let row = match work.is_empty() {
                true => entry.contest.work.clone(),
                false => rest(entry.contest),
            };
            let at = rows
                .iter()
                .position(|(name, _)| *name == row)
                .unwrap_or_else(|| {
                    rows.push((row, vec![None; values.len()]));
                    rows.len() - 1
                });
            if let Some(place) = values.iter().position(|value| *value == column(entry)) {
                rows[at].1[place] = Some(entry.cell.clone());
            }
        }
        let subject = if work.is_empty() { task } else { work };
        let metric = entries
            .first()
            .map_or("", |entry| entry.contest.metric.label);
        Self {
            task,
            title: format!("{subject}: {side} against {base}"),
            note: format!(
                "Ratios of {metric}; above 1 {side} is better. ≈ is too close to call, ? was disturbed."
            ),
            corner: axis.map_or(String::new(), |(sweep, _)| sweep.label.to_owned()),
            columns: values.iter().map(text).collect(),
            rows,
        }
    }

    /// The map as a table.
    pub(super) fn html(&self) -> String {
        let mut html = format!(
            "<figure class=\"heat\"><figcaption><h3>{}</h3><p>{}</p></figcaption><div class=\"scroll\"><table><thead><tr><th>{}</th>",
            escape(&self.title),
            escape(&self.note),
            escape(&self.corner)
        );
        for column in &self.columns {
            let _ = write!(html, "<th class=\"n\">{}</th>", escape(column));
        }
        html.push_str("</tr></thead><tbody>");
        for (name, cells) in &self.rows {
            let _ = write!(html, "<tr><th>{}</th>", escape(name));
            for cell in cells {
                match cell {
                    Some(cell) => cell.html(&mut html),
                    None => html.push_str("<td></td>"),
                }
            }
            html.push_str("</tr>");
        }
        html + "</tbody></table></div></figure>"
    }

    /// The map for a terminal.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{}\n  {}\n", self.title, self.note);
        let wide = |text: &str| text.chars().count();
        let names = self.rows.iter().map(|(name, _)| wide(name));
        let names = names.chain([wide(&self.corner)]).max().unwrap_or(0);
        let line = |text: &mut String, name: &str, cells: Vec<String>| {
            let _ = write!(text, "  {name}{}", " ".repeat(names - wide(name)));
            for cell in cells {
                let _ = write!(text, " {cell:>9}");
            }
            text.push('\n');
        };
        line(&mut text, &self.corner, self.columns.clone());
        for (name, cells) in &self.rows {
            let cells = cells
                .iter()
                .map(|cell| cell.as_ref().map_or(String::new(), Cell::text));
            line(&mut text, name, cells.collect());
        }
        text
    }
}

impl Cell {
    /// The ratio, with a mark that says who is better, or that nobody knows.
    fn text(&self) -> String {
        let mark = match self.gain {
            gain if gain.standing == Standing::TooClose => "≈",
            gain if gain.standing == Standing::Disturbed => "?",
            gain if gain.times > 1.0 => "▲",
            _ => "▼",
        };
        match self.gain.times {
            times if times < 10.0 => format!("{mark} {times:.2}×"),
            times => format!("{mark} {times:.0}×"),
        }
    }

    fn html(&self, html: &mut String) {
        let tip = escape(&self.tip);
        let strength = (self.gain.times.log(FULL)).clamp(-1.0, 1.0);
        let colour = if strength < 0.0 { "down" } else { "up" };
        let _ = write!(
            html,
            "<td style=\"background:color-mix(in srgb,var(--{colour}) {:.0}%,var(--card))\"><a href=\"#{}\" data-tip=\"{tip}\" aria-label=\"{tip}\">{}</a></td>",
            strength.abs() * 55.0,
            escape(&self.href),
            self.text()
        );
    }
}

/// What else than the columns varies.
fn rest(contest: &Contest<'_>) -> String {
    let others = contest.setting.iter().skip(1);
    let words: Vec<String> = others
        .map(|(sweep, value)| format!("{} {}", sweep.label, (sweep.text)(*value)))
        .collect();
    words.join(", ")
}
