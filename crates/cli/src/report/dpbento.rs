//! dpBento's figures 4 to 12 and 15 from dpb's records, in their own form: bars of each platform, grouped as there, with what the paper's authors published
//! beside them, hollow. The box `dpbento` has their parameters.

use dpb_core::measure::comparison::Better;
use dpb_core::measure::{Outcome, Record};

use super::bars::{Bar, Bars, Group};
use super::origin::Machines;
use super::select::{figure_text, is_unstable, unsure};
use super::vary::{number_of, text_of};
use super::{anchor, published};
use crate::output::{bytes, short, short_ns};
use crate::spec;

/// A figure of the paper.
struct Figure {
    number: &'static str,
    what: &'static str,
    task: &'static str,
    /// Parameters of its tests, with their values.
    with: &'static [(&'static str, &'static str)],
    groups: Groups,
    /// Parameters that tell bars of one platform apart.
    by: &'static [&'static str],
    /// What each bar shows, with its name where there are several.
    shown: &'static [(Shown, &'static str)],
    label: &'static str,
    text: fn(f64) -> String,
}

/// What the bars of a figure are grouped by.
enum Groups {
    /// A number, written so.
    Number(&'static str, fn(f64) -> String),
    /// The words of these parameters.
    Words(&'static [&'static str]),
}

/// What a bar shows.
enum Shown {
    /// A metric.
    Metric(&'static str),
    /// Operations of `arithmetic`: items a second times the operations of an item.
    Operations,
}

use Groups::{Number, Words};
use Shown::{Metric, Operations};

const ITEMS: &[(Shown, &str)] = &[(Metric("items_per_s"), "")];
const BYTES: &[(Shown, &str)] = &[(Metric("bytes_per_s"), "")];
const ACCESSES: &[(Shown, &str)] = &[(Metric("accesses_per_s"), "")];
const LATENCIES: &[(Shown, &str)] = &[
    (Metric("latency_ns_mean"), "mean"),
    (Metric("latency_ns_p99"), "99th percentile"),
];

/// A figure by sizes, one bar a platform; the other kinds say what they have instead.
const fn figure(
    number: &'static str,
    what: &'static str,
    task: &'static str,
    with: &'static [(&'static str, &'static str)],
) -> Figure {
    Figure {
        number,
        what,
        task,
        with,
        groups: Number("size", in_bytes),
        by: &[],
        shown: ITEMS,
        label: "",
        text: short,
    }
}

const fn arithmetic(
    number: &'static str,
    what: &'static str,
    with: &'static [(&'static str, &'static str)],
) -> Figure {
    Figure {
        groups: Words(&["op.operation"]),
        by: &["backend", "op.form"],
        shown: &[(Operations, "")],
        label: "operations per second of one thread",
        ..figure(number, what, "op", with)
    }
}

const fn strings(
    what: &'static str,
    with: &'static [(&'static str, &'static str)],
    length: fn(f64) -> String,
) -> Figure {
    Figure {
        groups: Number("size", length),
        by: &["backend"],
        label: "calls per second of one thread",
        ..figure("5", what, "op", with)
    }
}

const fn optimisable(
    number: &'static str,
    what: &'static str,
    with: &'static [(&'static str, &'static str)],
) -> Figure {
    Figure {
        by: &["backend"],
        shown: BYTES,
        label: "input bytes per second, the best of the threads that were measured",
        ..figure(number, what, "op", with)
    }
}

const fn memory(
    number: &'static str,
    what: &'static str,
    with: &'static [(&'static str, &'static str)],
) -> Figure {
    Figure {
        shown: ACCESSES,
        label: "accesses per second of one thread",
        ..figure(number, what, "memory", with)
    }
}

const fn storage(
    number: &'static str,
    what: &'static str,
    with: &'static [(&'static str, &'static str)],
) -> Figure {
    Figure {
        groups: Number("block", in_bytes),
        by: &["direct"],
        shown: BYTES,
        label: "bytes per second, the best of the depths and jobs that were measured",
        ..figure(number, what, "storage", with)
    }
}

const fn storage_latency(
    number: &'static str,
    what: &'static str,
    with: &'static [(&'static str, &'static str)],
) -> Figure {
    Figure {
        groups: Words(&["pattern", "access"]),
        by: &["direct"],
        shown: LATENCIES,
        label: "latency of a request, one in flight",
        text: short_ns,
        ..figure(number, what, "storage", with)
    }
}

const fn database(
    number: &'static str,
    what: &'static str,
    with: &'static [(&'static str, &'static str)],
) -> Figure {
    Figure {
        groups: Number("query", |query| format!("Q{query}")),
        by: &["engine", "sf", "link_gbps"],
        shown: &[(Metric("run_s"), "")],
        label: "time of a query, by the threads that were fastest",
        text: |seconds| short_ns(seconds * 1e9),
        ..figure(number, what, "dbms", with)
    }
}

const fn network(
    number: &'static str,
    what: &'static str,
    task: &'static str,
    with: &'static [(&'static str, &'static str)],
    groups: Groups,
    shown: &'static [(Shown, &'static str)],
) -> Figure {
    Figure {
        groups,
        shown,
        label: "one client and one server; each record says what lies between them",
        ..figure(number, what, task, with)
    }
}

#[rustfmt::skip]
const FIGURES: &[Figure] = &[
    arithmetic("4a", "arithmetic of 8-bit integers", &[("operator", "arithmetic"), ("op.type", "int8"), ("threads", "1")]),
    arithmetic("4b", "arithmetic of 128-bit integers", &[("operator", "arithmetic"), ("op.type", "int128"), ("threads", "1")]),
    arithmetic("4c", "arithmetic of 64-bit floating-point numbers", &[("operator", "arithmetic"), ("op.type", "f64"), ("threads", "1")]),
    // An item holds both strings.
    strings("comparing strings (strcmp)", &[("operator", "strcmp"), ("threads", "1")], |size| format!("{} B a string", size / 2.0)),
    strings("joining strings (strcat)", &[("operator", "strcat"), ("threads", "1")], |size| format!("{} B a string", size / 2.0)),
    strings("sort keys of strings (strxfrm)", &[("operator", "strxfrm"), ("threads", "1")], |size| format!("{size} B a string")),
    optimisable("6a", "compression (DEFLATE)", &[("operator", "deflate")]),
    optimisable("6b", "decompression (DEFLATE)", &[("operator", "inflate")]),
    optimisable("6c", "regular expressions (rxpmatch)", &[("operator", "rxpmatch")]),
    memory("7a", "memory, random reads", &[("pattern", "random"), ("access", "read"), ("threads", "1")]),
    memory("7b", "memory, sequential reads", &[("pattern", "sequential"), ("access", "read"), ("threads", "1")]),
    memory("7c", "memory, random writes", &[("pattern", "random"), ("access", "write"), ("threads", "1")]),
    memory("7d", "memory, sequential writes", &[("pattern", "sequential"), ("access", "write"), ("threads", "1")]),
    Figure {
        groups: Number("threads", |count| counted(count, "thread")), label: "accesses per second of all threads",
        ..memory("8", "memory, random reads of 16 KiB by threads", &[("pattern", "random"), ("access", "read"), ("size", "16384")])
    },
    storage("9a", "storage, random reads", &[("pattern", "random"), ("access", "read")]),
    storage("9b", "storage, sequential reads", &[("pattern", "sequential"), ("access", "read")]),
    storage("9c", "storage, random writes", &[("pattern", "random"), ("access", "write")]),
    storage("9d", "storage, sequential writes", &[("pattern", "sequential"), ("access", "write")]),
    storage_latency("10a", "storage, requests of 8 KiB", &[("block", "8192"), ("depth", "1"), ("jobs", "1")]),
    storage_latency("10b", "storage, requests of 4 MiB", &[("block", "4194304"), ("depth", "1"), ("jobs", "1")]),
    Figure {
        text: short_ns, label: "round trip of a message, one in flight",
        ..network("11a", "TCP, round trips", "tcp", &[("direction", "echo"), ("depth", "1"), ("connections", "1")], Number("size", in_bytes), LATENCIES)
    },
    Figure {
        label: "bytes per second of all connections",
        ..network("11b", "TCP, messages of 32 KiB, 128 in flight, by connections", "tcp", &[("size", "32768"), ("depth", "128")], Number("connections", |count| counted(count, "connection")), BYTES)
    },
    Figure {
        text: short_ns, label: "latency of a read", shown: &[(Metric("latency_ns_p50"), "median"), (Metric("latency_ns_p99"), "99th percentile")],
        ..network("12a", "RDMA, reads", "rdma", &[("method", "lat"), ("verb", "read")], Number("size", in_bytes), LATENCIES)
    },
    Figure {
        label: "bytes per second of all queue pairs",
        ..network("12b", "RDMA, reads by queue pairs", "rdma", &[("method", "bw"), ("verb", "read")], Number("qps", |count| counted(count, "queue pair")), BYTES)
    },
    database("15a", "TPC-H's queries, cold", &[("state", "cold")]),
    database("15b", "TPC-H's queries, hot", &[("state", "hot")]),
];

/// A size with its unit.
fn in_bytes(value: f64) -> String {
    match bytes(value) {
        text if text.contains(' ') => format!("{text}B"),
        text => format!("{text} B"),
    }
}

/// A number of things.
fn counted(count: f64, thing: &str) -> String {
    match count {
        1.0 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

/// The figures for which there are records, and the published numbers in them.
pub(super) fn figures(records: &[Record]) -> (Vec<Bars>, Vec<Record>) {
    let machines = Machines::of(records);
    let (mut charts, mut beside) = (Vec::new(), Vec::<Record>::new());
    for figure in FIGURES {
        let own: Vec<&Record> = records
            .iter()
            .filter(|record| figure.has(record, true))
            .collect();
        if own.is_empty() {
            continue;
        }
        let published: Vec<Record> = published::of_task(figure.task)
            .into_iter()
            .filter(|record| figure.has(record, false) && figure.shows(record))
            .collect();
        let all: Vec<&Record> = own.into_iter().chain(&published).collect();
        let chart = figure.chart(&all, &machines);
        if chart.bars().any(|bar| bar.kind != "published") {
            charts.push(chart);
            for record in published {
                if beside.iter().all(|known| known.id != record.id) {
                    beside.push(record);
                }
            }
        }
    }
    (charts, beside)
}

impl Shown {
    /// The factor to the metric of that name.
    fn of(&self, record: &Record) -> Option<(&'static str, f64)> {
        let has = |name: &str| record.summary.contains_key(name);
        match self {
            Metric(name) => has(name).then_some((*name, 1.0)),
            Operations if has("operations_per_s") => Some(("operations_per_s", 1.0)),
            Operations => {
                let rounds = number_of(record, "op.rounds")?;
                Some(("items_per_s", published::OPERATIONS_OF_ROUND * rounds))
            }
        }
    }
}

impl Figure {
    /// Whether the record is of this figure; `is_whole` if it must have all the parameters, as dpb's own have.
    fn has(&self, record: &Record, is_whole: bool) -> bool {
        let fits = |(name, value): &(&str, &str)| match record.parameters.get(*name) {
            Some(own) => own.to_string() == *value,
            None => !is_whole,
        };
        record.task == self.task
            && (!is_whole || published::may_have_numbers(record))
            && record.outcome == Outcome::Done
            && self.with.iter().all(fits)
            && self.group(record).is_some()
    }

    fn shows(&self, record: &Record) -> bool {
        self.shown.iter().any(|(shown, _)| {
            shown
                .of(record)
                .is_some_and(|(metric, _)| record.summary.contains_key(metric))
        })
    }

    /// The group's place, where it is a number, and its name.
    fn group(&self, record: &Record) -> Option<(f64, String)> {
        match &self.groups {
            Number(name, text) => number_of(record, name).map(|value| (value, text(value))),
            Words(names) => {
                let words: Vec<String> = names.iter().map(|name| text_of(record, name)).collect();
                words
                    .iter()
                    .all(|word| !word.is_empty())
                    .then(|| (0.0, words.join(" ")))
            }
        }
    }

    fn chart(&self, records: &[&Record], machines: &Machines<'_>) -> Bars {
        let mut groups: Vec<(f64, Group)> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for record in records {
            let Some((place, name)) = self.group(record) else {
                continue;
            };
            let at = groups
                .iter()
                .position(|(_, group)| group.name == name)
                .unwrap_or_else(|| {
                    groups.push((
                        place,
                        Group {
                            name,
                            bars: Vec::new(),
                        },
                    ));
                    groups.len() - 1
                });
            let who = self.who(record, machines);
            for (shown, what) in self.shown {
                if let Some(bar) = self.bar(record, (shown, what), &who, &mut names) {
                    keep(&mut groups[at].1.bars, bar, shown);
                }
            }
        }
        groups.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Bars {
            title: format!("{}, as dpBento's figure {}", self.what, self.number),
            notes: Vec::new(),
            label: self.label.to_owned(),
            text: self.text,
            may_be_log: true,
            groups: groups.into_iter().map(|(_, group)| group).collect(),
        }
    }

    fn bar(
        &self,
        record: &Record,
        (shown, what): (&Shown, &str),
        who: &str,
        names: &mut Vec<String>,
    ) -> Option<Bar> {
        let (metric, factor) = shown.of(record)?;
        let summary = record.summary.get(metric)?;
        let kind = record.evidence.kind();
        let colour = names
            .iter()
            .position(|known| *known == who)
            .unwrap_or_else(|| {
                names.push(who.to_owned());
                names.len() - 1
            });
        let name = match what {
            "" => who.to_owned(),
            what => format!("{who}, {what}"),
        };
        let mut scaled = summary.clone();
        scaled.median *= factor;
        scaled.ci95_low = summary.ci95_low.map(|low| low * factor);
        scaled.ci95_high = summary.ci95_high.map(|high| high * factor);
        let own: Vec<String> = spec::own(record)
            .map(|(name, value)| format!("{}={value}", spec::bare(name)))
            .collect();
        let own = if own.is_empty() || kind == "published" {
            String::new()
        } else {
            format!(", {}", own.join(","))
        };
        Some(Bar {
            tip: format!(
                "{name}{own}: {}, {kind}{}",
                figure_text(&scaled, self.text),
                unsure(record)
            ),
            name,
            kind,
            colour,
            value: scaled.median,
            interval: scaled.ci95_low.zip(scaled.ci95_high),
            is_unstable: is_unstable(record),
            href: anchor(record),
        })
    }

    /// The platform, and what tells its bars apart.
    fn who(&self, record: &Record, machines: &Machines<'_>) -> String {
        let kind = record.evidence.kind();
        let platform = match kind {
            "published" => text_of(record, "platform"),
            _ => machines.name(record),
        };
        let by = self.by.iter().map(|name| match *name {
            "direct" => {
                if text_of(record, name) == "true" {
                    "direct".to_owned()
                } else {
                    "page cache".to_owned()
                }
            }
            "sf" => format!("SF {}", text_of(record, name)),
            "link_gbps" => match number_of(record, name) {
                None | Some(0.0) => String::new(),
                Some(gbps) => format!("{gbps} Gbit/s"),
            },
            name => text_of(record, name),
        });
        let by = by.filter(|word| !word.is_empty() && kind != "published");
        let words: Vec<String> = [platform].into_iter().chain(by).collect();
        words.join(", ")
    }
}

/// Keeps the better of two bars of one name.
fn keep(bars: &mut Vec<Bar>, bar: Bar, shown: &Shown) {
    let better = match shown {
        Metric(name) => Better::of(name),
        Operations => Better::More,
    };
    match bars
        .iter_mut()
        .find(|known| known.name == bar.name && known.kind == bar.kind)
    {
        None => bars.push(bar),
        Some(known) => {
            let is_better = match better {
                Better::More => bar.value > known.value,
                Better::Less => bar.value < known.value,
            };
            if is_better {
                *known = bar;
            }
        }
    }
}
