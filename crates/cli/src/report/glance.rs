//! The top of the page: the platforms, who is fastest in what, and the bounds of each machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use dpb_core::measure::comparison::Better;
use dpb_core::measure::{Outcome, Record};

use super::anchor;
use super::contest::{Among, Contest, Gain, Standing};
use super::html::{escape, narrow};
use super::origin::Machines;
use super::select::is_unstable;
use super::vary::{number_of, text_of};
use crate::output::{bytes, short, short_ns};
use crate::shown::ShownTasks;

/// Who won how many tests of one kind of work.
struct Score<'a> {
    task: &'static str,
    work: String,
    tests: usize,
    wins: BTreeMap<String, usize>,
    too_close: usize,
    disturbed: usize,
    /// The test in which the fastest is furthest ahead, one beyond doubt if there is any.
    widest: Option<(Gain, &'a Contest<'a>)>,
}

/// Who is fastest in how many tests, in a sentence; nothing if there is no contest.
pub(super) fn verdict(contests: &[Contest<'_>]) -> String {
    let mut wins = BTreeMap::<&str, usize>::new();
    let (mut too_close, mut disturbed) = (0, 0);
    for contest in contests {
        match contest.lead().map(|gain| gain.standing) {
            Some(Standing::Decided) => *wins.entry(&contest.sides[0].name).or_default() += 1,
            Some(Standing::Disturbed) => disturbed += 1,
            Some(Standing::TooClose) | None => too_close += 1,
        }
    }
    let mut wins: Vec<(&str, usize)> = wins.into_iter().collect();
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut parts: Vec<String> = Vec::new();
    for (name, count) in wins {
        parts.push(match parts.is_empty() {
            true => format!("{name} is fastest in {count} of {} tests", contests.len()),
            false => format!("{name} in {count}"),
        });
    }
    if parts.is_empty() && !contests.is_empty() {
        parts.push(format!("none of {} tests is decided", contests.len()));
    }
    if too_close > 0 {
        parts.push(format!("{too_close} too close to call"));
    }
    if disturbed > 0 {
        parts.push(format!("{disturbed} disturbed by other work"));
    }
    parts.join(", ")
}

fn scores<'a>(contests: &'a [Contest<'a>]) -> Vec<Score<'a>> {
    let mut scores: Vec<Score<'a>> = Vec::new();
    for contest in contests {
        let task = contest.task.name;
        let at = scores
            .iter()
            .position(|score| score.task == task && score.work == contest.work)
            .unwrap_or_else(|| {
                scores.push(Score {
                    task,
                    work: contest.work.clone(),
                    tests: 0,
                    wins: BTreeMap::new(),
                    too_close: 0,
                    disturbed: 0,
                    widest: None,
                });
                scores.len() - 1
            });
        let score = &mut scores[at];
        score.tests += 1;
        let Some(gain) = contest.lead() else {
            score.too_close += 1;
            continue;
        };
        match gain.standing {
            Standing::Decided => {
                *score.wins.entry(contest.sides[0].name.clone()).or_default() += 1;
            }
            Standing::Disturbed => score.disturbed += 1,
            Standing::TooClose => score.too_close += 1,
        }
        let rank = |gain: Gain| (gain.is_decided(), gain.times);
        if score
            .widest
            .is_none_or(|(widest, _)| rank(gain) > rank(widest))
        {
            score.widest = Some((gain, contest));
        }
    }
    scores
}

/// The names of all who took part, in the order in which they come.
fn names<'a>(contests: &'a [Contest<'_>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for side in contests.iter().flat_map(|contest| &contest.sides) {
        if !names.contains(&side.name.as_str()) {
            names.push(&side.name);
        }
    }
    names.sort_unstable();
    names
}

/// A table: a row for each kind of work, a column for each who took part.
pub(super) fn winners(contests: &[Contest<'_>]) -> String {
    let names = names(contests);
    let mut html = String::from(
        "<div class=\"wide\"><table class=\"wins\"><thead><tr><th>work</th><th class=\"n\">tests</th>",
    );
    for name in &names {
        let _ = write!(html, "<th class=\"n\">{}</th>", narrow(name));
    }
    html.push_str("<th class=\"n\">too close</th><th class=\"n\">disturbed</th><th>clearest</th></tr></thead><tbody>");
    for score in scores(contests) {
        let task = if score.work == score.task {
            String::new()
        } else {
            format!("{}: ", score.task)
        };
        let _ = write!(
            html,
            "<tr><th>{}{}</th><td class=\"n\">{}</td>",
            escape(&task),
            escape(&score.work),
            score.tests
        );
        let most = score.wins.values().max().copied().unwrap_or(0);
        for name in &names {
            match score.wins.get(*name) {
                Some(&wins) if wins == most => {
                    let _ = write!(html, "<td class=\"n\"><strong>{wins}</strong></td>");
                }
                Some(wins) => {
                    let _ = write!(html, "<td class=\"n\">{wins}</td>");
                }
                None => html.push_str("<td class=\"n\">·</td>"),
            }
        }
        for count in [score.too_close, score.disturbed] {
            match count {
                0 => html.push_str("<td class=\"n\">·</td>"),
                count => {
                    let _ = write!(html, "<td class=\"n\">{count}</td>");
                }
            }
        }
        html.push_str("<td>");
        if let Some((gain, contest)) = score.widest {
            let _ = write!(
                html,
                "<a href=\"#{}\">{}</a>",
                escape(&anchor(contest.sides[0].record)),
                narrow(&clearest(gain, contest))
            );
        }
        html.push_str("</td></tr>");
    }
    html + "</tbody></table></div>"
}

fn clearest(gain: Gain, contest: &Contest<'_>) -> String {
    let at = contest.setting_text();
    let at = if at.is_empty() {
        at
    } else {
        format!(" at {at}")
    };
    format!(
        "{} {:.2}× {}{at}{}",
        contest.sides[0].name,
        gain.times,
        contest.sides[1].name,
        gain.standing.doubt()
    )
}

/// The same for a terminal.
pub(super) fn winners_text(contests: &[Contest<'_>]) -> String {
    let mut text = String::new();
    for score in scores(contests) {
        let wins: Vec<String> = score
            .wins
            .iter()
            .map(|(name, wins)| format!("{name} {wins}"))
            .collect();
        let mut parts: Vec<String> = wins;
        if score.too_close > 0 {
            parts.push(format!("too close {}", score.too_close));
        }
        if score.disturbed > 0 {
            parts.push(format!("disturbed {}", score.disturbed));
        }
        let task = if score.work == score.task {
            ""
        } else {
            score.task
        };
        let work = format!("{task} {}", score.work);
        let _ = write!(
            text,
            "  {}, {} tests: {}",
            work.trim(),
            score.tests,
            parts.join(", ")
        );
        if let Some((gain, contest)) = score.widest {
            let _ = write!(text, "; {}", clearest(gain, contest));
        }
        text.push('\n');
    }
    text
}

/// The machines, one card each: what they are, and how many of their tests are done and stable.
pub(super) fn platforms(records: &[Record], contests: &[Contest<'_>]) -> String {
    let mut html = String::from("<div class=\"cards\">");
    for (host, own) in machines(records) {
        let here = &own[0].provenance;
        let done = own
            .iter()
            .filter(|record| record.outcome == Outcome::Done)
            .count();
        let unstable = own.iter().filter(|record| is_unstable(record)).count();
        let kinds: BTreeSet<&str> = own.iter().map(|record| record.evidence.kind()).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let wins = contests.iter().filter(|contest| {
            contest.sides[0].name == host && contest.lead().is_some_and(|gain| gain.is_decided())
        });
        let _ = write!(
            html,
            "<div class=\"card\"><h3>{}</h3><p>{}</p><p>{}</p><p>{done} tests done, {unstable} unstable; {}</p>",
            escape(if host.is_empty() {
                "unnamed machine"
            } else {
                &host
            }),
            escape(&here.cpu_model),
            escape(&machine(here)),
            escape(&kinds.join(", "))
        );
        if !contests.is_empty() {
            let _ = write!(
                html,
                "<p><strong>fastest in {} of {} tests</strong></p>",
                wins.count(),
                contests.len()
            );
        }
        html.push_str(&bounds(&own));
        html.push_str("</div>");
    }
    html + "</div>"
}

fn machine(here: &dpb_core::measure::Provenance) -> String {
    if here.cpus == 0 {
        return String::new();
    }
    let memory = here.memory_bytes as f64 / f64::from(1 << 30);
    format!("{} CPUs, {memory:.1} GiB, {}", here.cpus, here.cpu_level)
}

/// The machines' names, in the records' order, and the records of each.
pub(super) fn machines(records: &[Record]) -> Vec<(String, Vec<&Record>)> {
    let names = Machines::of(records);
    let mut machines: Vec<(String, Vec<&Record>)> = Vec::new();
    for record in records {
        let name = names.name(record);
        match machines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, own)) => own.push(record),
            None => machines.push((name, vec![record])),
        }
    }
    machines
}

/// A bound of a machine: the best that its records have of a metric.
struct Bound {
    what: &'static str,
    task: &'static str,
    with: &'static [(&'static str, &'static str)],
    metric: &'static str,
    /// Only records with the largest value of this parameter count; others stay in a cache.
    largest: Option<&'static str>,
    text: fn(f64) -> String,
}

const BOUNDS: [Bound; 8] = [
    Bound {
        what: "memory, sequential reads",
        task: "memory",
        with: &[("pattern", "sequential"), ("access", "read")],
        metric: "bytes_per_s",
        largest: Some("size"),
        text: |value| format!("{}B/s", short(value)),
    },
    Bound {
        what: "memory, sequential writes",
        task: "memory",
        with: &[("pattern", "sequential"), ("access", "write")],
        metric: "bytes_per_s",
        largest: Some("size"),
        text: |value| format!("{}B/s", short(value)),
    },
    Bound {
        what: "memory, an access that waits for another",
        task: "memory",
        with: &[("pattern", "chain")],
        metric: "ns_per_access",
        largest: Some("size"),
        text: |value| format!("{value:.1} ns"),
    },
    Bound {
        what: "storage, reads",
        task: "storage",
        with: &[("access", "read")],
        metric: "bytes_per_s",
        largest: None,
        text: |value| format!("{}B/s", short(value)),
    },
    Bound {
        what: "storage, writes",
        task: "storage",
        with: &[("access", "write")],
        metric: "bytes_per_s",
        largest: None,
        text: |value| format!("{}B/s", short(value)),
    },
    Bound {
        what: "storage, a read",
        task: "storage",
        with: &[("access", "read")],
        metric: "latency_ns_p50",
        largest: None,
        text: short_ns,
    },
    Bound {
        what: "TCP",
        task: "tcp",
        with: &[],
        metric: "bytes_per_s",
        largest: None,
        text: |value| format!("{}B/s", short(value)),
    },
    Bound {
        what: "TCP, a round trip",
        task: "tcp",
        with: &[],
        metric: "latency_ns_p50",
        largest: None,
        text: short_ns,
    },
];

/// The best that a machine's records show of memory, storage and network: what no program on it can exceed by much.
fn bounds(records: &[&Record]) -> String {
    let found: Vec<(&Bound, &Record, f64)> = BOUNDS
        .iter()
        .filter_map(|bound| {
            bound
                .of(records)
                .map(|(record, value)| (bound, record, value))
        })
        .collect();
    if found.is_empty() {
        return String::new();
    }
    let mut html = String::from("<table class=\"bounds\"><caption>Best measured</caption><tbody>");
    for (bound, record, value) in found {
        let _ = write!(
            html,
            "<tr><th>{}</th><td class=\"n\"><a href=\"#{}\">{}</a>{}</td><td>{}</td></tr>",
            escape(bound.what),
            escape(&anchor(record)),
            escape(&(bound.text)(value)),
            super::bars::shaky(is_unstable(record)),
            escape(&bound.setting(record))
        );
    }
    html + "</tbody></table>"
}

/// The same for a terminal.
pub(super) fn bounds_text(records: &[&Record]) -> String {
    let mut text = String::new();
    for bound in &BOUNDS {
        if let Some((record, value)) = bound.of(records) {
            let _ = writeln!(
                text,
                "    {}: {} ({})",
                bound.what,
                (bound.text)(value),
                bound.setting(record)
            );
        }
    }
    text
}

impl Bound {
    /// The best record, and its figure.
    fn of<'a>(&self, records: &[&'a Record]) -> Option<(&'a Record, f64)> {
        let fits = |record: &&&Record| {
            record.task == self.task
                && record.evidence.kind() == "measured"
                && self
                    .with
                    .iter()
                    .all(|(name, value)| text_of(record, name) == *value)
                && record.summary.contains_key(self.metric)
        };
        let own: Vec<&Record> = records.iter().filter(fits).copied().collect();
        let size = |record: &Record| {
            self.largest
                .and_then(|name| number_of(record, name))
                .unwrap_or(0.0)
        };
        let largest = own.iter().map(|record| size(record)).fold(0.0, f64::max);
        let values = own.into_iter().filter(|record| size(record) >= largest);
        let values = values.map(|record| (record, record.summary[self.metric].median));
        values.reduce(|best, other| {
            let is_better = match Better::of(self.metric) {
                Better::More => other.1 > best.1,
                Better::Less => other.1 < best.1,
            };
            if is_better { other } else { best }
        })
    }

    /// The parameters of its record that say what it is of.
    fn setting(&self, record: &Record) -> String {
        let names: &[(&str, &str)] = match self.task {
            "memory" => &[("size", ""), ("threads", "threads")],
            "storage" => &[
                ("pattern", ""),
                ("block", ""),
                ("depth", "in flight"),
                ("jobs", "jobs"),
            ],
            _ => &[
                ("size", ""),
                ("depth", "in flight"),
                ("connections", "connections"),
                ("link", ""),
            ],
        };
        let words = names.iter().filter_map(|(name, unit)| {
            let value = match (number_of(record, name), *name) {
                (Some(value), "size" | "block") if bytes(value).contains(' ') => {
                    format!("{}B", bytes(value))
                }
                (Some(value), "size" | "block") => format!("{value} B"),
                _ => text_of(record, name),
            };
            let unit = if value == "1" {
                unit.trim_end_matches('s')
            } else {
                unit
            };
            (!value.is_empty()).then(|| format!("{value} {unit}").trim().to_owned())
        });
        let mut words: Vec<String> = words.collect();
        if self.task == "storage" && text_of(record, "direct") == "false" {
            words.push("page cache".to_owned());
        }
        words.join(", ")
    }
}

/// All contests of a page: among platforms, and among the sides of each run.
pub(super) fn contests<'a>(records: &'a [Record], known: &ShownTasks) -> [Vec<Contest<'a>>; 2] {
    [Among::Platforms, Among::Sides].map(|among| Contest::all(records, known, among))
}
