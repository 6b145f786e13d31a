//! Bars, as HTML: names, lengths and figures keep their size on a phone, and need no legend.
//!
//! What was measured is filled; every other kind of evidence is hollow and named.

use std::fmt::Write;

use super::html::escape;
use super::scale::Scale;

/// A chart of bars in groups.
#[derive(Debug)]
pub(super) struct Bars {
    pub(super) title: String,
    /// Under the title: what is held fixed, and where kinds of evidence meet.
    pub(super) notes: Vec<String>,
    /// What the lengths mean, unit included.
    pub(super) label: String,
    /// How a length is written.
    pub(super) text: fn(f64) -> String,
    /// Whether lengths that span much are logarithms.
    pub(super) may_be_log: bool,
    pub(super) groups: Vec<Group>,
}

/// Bars that belong together.
#[derive(Debug)]
pub(super) struct Group {
    /// Empty where there is one group alone.
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
}

/// One number.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    /// `measured`, `simulated`, `emulated`, `published`.
    pub(super) kind: &'static str,
    /// The place among the colours.
    pub(super) colour: usize,
    pub(super) value: f64,
    pub(super) interval: Option<(f64, f64)>,
    /// Whether the record's verdict is against it.
    pub(super) is_unstable: bool,
    /// Said when it is pointed at.
    pub(super) tip: String,
    /// The record's place on the page.
    pub(super) href: String,
}

/// Characters of the longest bar in a terminal that is wide enough.
const TEXT_BAR: usize = 40;

impl Bars {
    /// All bars of all groups.
    pub(super) fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.groups.iter().flat_map(|group| &group.bars)
    }

    /// The kinds of evidence, in the order in which they come.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        for bar in self.bars() {
            if !kinds.contains(&bar.kind) {
                kinds.push(bar.kind);
            }
        }
        kinds
    }

    fn scale(&self) -> Scale {
        let ends = self
            .bars()
            .flat_map(|bar| [bar.value, bar.interval.map_or(bar.value, |(_, high)| high)]);
        Scale::of_lengths(ends, self.may_be_log)
    }

    fn axis(&self, scale: &Scale) -> String {
        match scale.log {
            true => format!("{} (log scale from {})", self.label, (self.text)(scale.low)),
            false => self.label.clone(),
        }
    }

    /// The chart.
    pub(super) fn html(&self) -> String {
        let scale = self.scale();
        let mut html = format!(
            "<figure class=\"barred\">{}<div class=\"bars\">",
            caption(&self.title, &self.notes, &self.kinds())
        );
        for group in &self.groups {
            if !group.name.is_empty() {
                let _ = write!(html, "<h4>{}</h4>", escape(&group.name));
            }
            for bar in &group.bars {
                self.bar(&mut html, bar, &scale);
            }
        }
        let _ = write!(
            html,
            "</div><p class=\"label\">{}</p></figure>",
            escape(&self.axis(&scale))
        );
        html
    }

    fn bar(&self, html: &mut String, bar: &Bar, scale: &Scale) {
        let percent = |value: f64| scale.at(value).clamp(0.0, 1.0) * 100.0;
        let tip = escape(&bar.tip);
        let _ = write!(
            html,
            "<a class=\"bar c{} {kind}\" href=\"#{}\" data-tip=\"{tip}\" aria-label=\"{tip}\"><span class=\"who\">{}{}</span>\
             <span class=\"track\"><span class=\"fill\" style=\"width:{:.2}%\"></span>",
            bar.colour % 8,
            escape(&bar.href),
            escape(&bar.name),
            named_kind(bar.kind),
            percent(bar.value).max(0.4),
            kind = bar.kind,
        );
        if let Some((low, high)) = bar.interval {
            let (low, high) = (percent(low), percent(high));
            let _ = write!(
                html,
                "<span class=\"range\" style=\"left:{low:.2}%;width:{:.2}%\"></span>",
                high - low
            );
        }
        let _ = write!(
            html,
            "</span><span class=\"value\">{}{}</span></a>",
            escape(&(self.text)(bar.value)),
            shaky(bar.is_unstable)
        );
    }

    /// The chart for a terminal of `columns` characters.
    pub(super) fn to_text(&self, columns: usize) -> String {
        let scale = self.scale();
        let mut text = format!("{}\n", self.title);
        for note in self.notes.iter().filter(|note| !note.is_empty()) {
            let _ = writeln!(text, "  {note}");
        }
        let name = |bar: &Bar| match bar.kind {
            "measured" => bar.name.clone(),
            kind => format!("{} ({kind})", bar.name),
        };
        let wide = |text: &str| text.chars().count();
        let names = self.bars().map(|bar| wide(&name(bar))).max().unwrap_or(0);
        let longest = columns.saturating_sub(names + 16).clamp(8, TEXT_BAR);
        for group in &self.groups {
            if !group.name.is_empty() {
                let _ = writeln!(text, "  {}", group.name);
            }
            for bar in &group.bars {
                let name = name(bar);
                let full = (scale.at(bar.value).clamp(0.0, 1.0) * longest as f64).round() as usize;
                let mark = if bar.kind == "measured" { "█" } else { "░" };
                let unsure = if bar.is_unstable { " ?" } else { "" };
                let _ = writeln!(
                    text,
                    "    {name}{}  {} {}{unsure}",
                    " ".repeat(names - wide(&name)),
                    mark.repeat(full.max(1)),
                    (self.text)(bar.value)
                );
            }
        }
        let _ = writeln!(text, "  {}", self.axis(&scale));
        text
    }
}

/// Title and notes of a chart, with a warning where kinds of evidence meet.
pub(super) fn caption(title: &str, notes: &[String], kinds: &[&str]) -> String {
    let mut html = format!("<figcaption><h3>{}</h3>", escape(title));
    for note in notes.iter().filter(|note| !note.is_empty()) {
        let _ = write!(html, "<p>{}</p>", escape(note));
    }
    if kinds.len() > 1 {
        let kinds = kinds.join(" and ");
        let _ = write!(
            html,
            "<p class=\"mixed\">Two kinds of evidence on one axis: {kinds}. Only filled marks are measured.</p>"
        );
    }
    html + "</figcaption>"
}

/// The kind of evidence behind a name, unless it was measured.
pub(super) fn named_kind(kind: &str) -> String {
    match kind {
        "measured" => String::new(),
        kind => format!(" <em>{kind}</em>"),
    }
}

/// The mark of a number whose record is unstable.
pub(super) fn shaky(is_unstable: bool) -> &'static str {
    match is_unstable {
        true => "<abbr title=\"unstable: its record says why\">?</abbr>",
        false => "",
    }
}
