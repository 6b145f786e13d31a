//! Woo and Chung's figures 3 and 4 beside the same of systems that dpb simulated, and what of the published difference the model explains.
//!
//! The box `woo-chung` has the systems, and the changes of them that are drawn. The paper's numbers are hollow bars with their own name, and no ratio is drawn to them.

use std::collections::BTreeSet;
use std::fmt::Write;

use dpb_core::measure::{Outcome, Ratio, Record};
use serde_json::Value;

use super::bars::{Bar, Bars, Group};
use super::html::escape;
use super::select::figure_text;
use super::vary::{number_of, text_of};
use super::{anchor, published};
use crate::output::short;

/// The box.
const BOX: &str = include_str!("../../boxes/woo-chung.json");
/// The task of the records.
const TASK: &str = "sim run";
/// Before the names of the paper's systems.
const FOLDER: &str = "woo-chung/";
/// The paper's figure 4: completion time over that with dumb cards. Its records have the metric of this name.
const SHARE: &str = "completion_share";
const RATE: &str = "transactions_per_s";
/// The paper's digests, in its figure's order.
const DIGESTS: [(&str, &str); 2] = [("sha256", "SHA-256"), ("sha512", "SHA-512")];

/// The figures, and what they mean.
pub(super) struct Figures {
    /// Bars of figures 3 and 4.
    pub(super) bars: Vec<Bars>,
    /// Sentences.
    pub(super) said: Vec<String>,
    /// The paper's numbers that are drawn.
    pub(super) beside: Vec<Record>,
}

/// The title of the section.
pub(super) const TITLE: &str = "As in Woo and Chung";
/// Words that a reader needs before the figures.
pub(super) const NOTE: &str = "The paper's figures with this page's simulated systems. Hollow bars of the paper are its own numbers: other hosts, another card, QEMU and SimBricks; no ratio is drawn to them.";

/// The figures of the records, if there are any of the paper's systems; those with the ids in `swept` are of sweeps.
pub(super) fn figures(records: &[Record], swept: &BTreeSet<String>) -> Option<Figures> {
    let systems = systems();
    let own: Vec<&Record> = records
        .iter()
        .filter(|record| is_of_paper(record, &systems) && !swept.contains(&record.id))
        .collect();
    if own.is_empty() {
        return None;
    }
    let paper = published::simulated();
    let mut bars = Vec::new();
    let mut beside = Vec::new();
    let mut add = |drawn: Option<Bars>, metric: &str| {
        if let Some(drawn) = drawn {
            bars.push(drawn);
            let of = |record: &&Record| record.summary.contains_key(metric);
            beside.extend(paper.iter().filter(of).cloned());
        }
    };
    add(transactions(&own, &paper), RATE);
    add(completion(&own, &paper), SHARE);
    Some(Figures {
        bars,
        said: said(&own),
        beside,
    })
}

/// A system with the changes that a box makes of it.
type Changed = (String, BTreeSet<String>);

/// The changes in the text of a `--set`.
fn changes(set: &str) -> BTreeSet<String> {
    let each = set.split(';').map(str::trim);
    each.filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The systems of the box.
fn systems() -> Vec<Changed> {
    let read: Value = serde_json::from_str(BOX).unwrap_or_default();
    let tasks = read["tasks"].as_array().into_iter().flatten();
    let each = tasks.flat_map(|task| {
        let parameters = &task["parameters"];
        let set = changes(parameters["set"].as_str().unwrap_or_default());
        let names = match &parameters["system"] {
            Value::Array(names) => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        let names = names.iter().filter_map(Value::as_str);
        names.map(move |name| (name.to_owned(), set.clone()))
    });
    each.collect()
}

/// True of a whole record of one of the systems of the box, with just the changes that the box makes.
fn is_of_paper(record: &Record, systems: &[Changed]) -> bool {
    let changed = (text_of(record, "system"), changes(&text_of(record, "set")));
    record.task == TASK && record.outcome == Outcome::Done && systems.contains(&changed)
}

fn variant(record: &Record) -> String {
    let system = text_of(record, "system");
    system.trim_start_matches(FOLDER).to_owned()
}

/// A record's variant, with its digest and, where it is not the paper's, its framing.
fn named(record: &Record) -> String {
    let mut name = variant(record);
    let digest = text_of(record, "digest");
    if digest != "none" && !name.starts_with("tls") {
        let _ = write!(name, ", {digest}");
        if text_of(record, "framing") == "mark" {
            name.push_str(", marked");
        }
    }
    name
}

/// The first record of each variant with an application: sweeps of it come later.
fn plain<'a>(records: &[&'a Record], application: &str) -> Vec<&'a Record> {
    let mut seen = BTreeSet::new();
    let fitting = records.iter().copied();
    fitting
        .filter(|record| text_of(record, "application") == application)
        .filter(|record| seen.insert(named(record)))
        .collect()
}

/// Figure 3: transactions a second of a client.
fn transactions(records: &[&Record], paper: &[Record]) -> Option<Bars> {
    let own = plain(records, "ask");
    if own.is_empty() {
        return None;
    }
    let mut drawn: Vec<Bar> = Vec::new();
    for record in own {
        let clients = number_of(record, "clients").filter(|&clients| clients > 0.0)?;
        let rate = record.summary.get(RATE)?;
        let each = |value: f64| value / clients;
        drawn.push(Bar {
            name: named(record),
            kind: record.evidence.kind(),
            colour: 0,
            value: each(rate.median),
            interval: rate.ci95_low.map(each).zip(rate.ci95_high.map(each)),
            is_unstable: false,
            tip: format!(
                "{}: {} a client, simulated",
                named(record),
                short(each(rate.median))
            ),
            href: anchor(record),
        });
    }
    drawn.extend(
        paper
            .iter()
            .filter_map(|record| paper_bar(record, RATE, "host")),
    );
    Some(Bars {
        title: "Transactions a second, as figure 3".to_owned(),
        notes: vec![
            "Ours: requests of 128 bytes, one after the other, answers of 1024, on one connection of each client, interrupts not held back. The paper does not say what a transaction is, and quotes the BlueField from another work."
                .to_owned(),
        ],
        label: "transactions a second of one client; of the paper, of the host that is named".to_owned(),
        text: short,
        may_be_log: false,
        groups: vec![Group { name: String::new(), bars: drawn }],
    })
}

/// A bar of the paper's.
fn paper_bar(record: &Record, metric: &str, of: &str) -> Option<Bar> {
    let value = record.summary.get(metric)?.median;
    let name = match text_of(record, of).as_str() {
        "" => text_of(record, "platform"),
        of => format!("{}, {of}", text_of(record, "platform")),
    };
    Some(Bar {
        tip: format!("{name}: {}, published", short(value)),
        name,
        kind: record.evidence.kind(),
        colour: 1,
        value,
        interval: None,
        is_unstable: false,
        href: anchor(record),
    })
}

/// The ratio of completion times of two records.
fn ratio(over: &Record, under: &Record) -> Option<Ratio> {
    let times = |record: &Record| Some(record.samples.get("completion_s")?.values.clone());
    Ratio::of(&times(over)?, &times(under)?)
}

/// The card's record, and those of dumb cards that it is held against: hosts that compute the digest, and hosts that do not.
struct Sides<'a> {
    card: &'a Record,
    software: Option<&'a Record>,
    dumb: Option<&'a Record>,
}

fn sides<'a>(records: &[&'a Record], digest: &str) -> Option<Sides<'a>> {
    let own = plain(records, "send");
    let find = |name: &str, digest: &str| {
        let mut fitting = own.iter().copied();
        fitting.find(|record| {
            variant(record) == name
                && text_of(record, "digest") == digest
                && text_of(record, "framing") != "mark"
        })
    };
    Some(Sides {
        card: find("card", digest)?,
        software: find("software", digest),
        dumb: find("dumb", "none"),
    })
}

/// Figure 4: the completion time with the card, over that with dumb cards.
fn completion(records: &[&Record], paper: &[Record]) -> Option<Bars> {
    let mut groups = Vec::new();
    for (digest, title) in DIGESTS {
        let Some(sides) = sides(records, digest) else {
            continue;
        };
        let mut drawn = Vec::new();
        for (base, what) in [
            (sides.software, "card, over hosts that compute the digest"),
            (sides.dumb, "card, over hosts that do not authenticate"),
        ] {
            let Some(ratio) = base.and_then(|base| ratio(sides.card, base)) else {
                continue;
            };
            drawn.push(Bar {
                name: what.to_owned(),
                kind: sides.card.evidence.kind(),
                colour: 0,
                value: ratio.median,
                interval: ratio.ci95,
                is_unstable: false,
                tip: format!("{title}, {what}: {:.3}, simulated", ratio.median),
                href: anchor(sides.card),
            });
        }
        let of_digest = paper
            .iter()
            .filter(|record| text_of(record, "digest") == digest);
        drawn.extend(of_digest.filter_map(|record| paper_bar(record, SHARE, "against")));
        groups.push(Group {
            name: title.to_owned(),
            bars: drawn,
        });
    }
    (!groups.is_empty()).then(|| Bars {
        title: "Completion time with a card that authenticates, as figure 4".to_owned(),
        notes: vec!["Below 1 the card saves time.".to_owned()],
        label: "completion time over that with dumb cards".to_owned(),
        text: |value| format!("{value:.2}"),
        may_be_log: false,
        groups,
    })
}

/// The records, in words.
fn said(records: &[&Record]) -> Vec<String> {
    let mut said = Vec::new();
    for (digest, title) in DIGESTS {
        let Some(sides) = sides(records, digest) else {
            continue;
        };
        let change = |base: Option<&Record>| Some(ratio(sides.card, base?)?.median - 1.0);
        if let Some(change) = change(sides.software) {
            let times = [Some(sides.card), sides.software].map(|record| {
                let time = record.and_then(|record| record.summary.get("completion_s"));
                time.map_or(String::new(), |time| {
                    figure_text(time, |s| format!("{:.1} ms", s * 1e3))
                })
            });
            said.push(format!(
                "{title}: with the card {}, with hosts that compute the digest {}: {:+.1} %. The paper has {}.",
                times[0], times[1], change * 100.0,
                match digest { "sha256" => "about -20 %", _ => "about -2 %" },
            ));
        }
        if let Some(change) = change(sides.dumb) {
            said.push(format!(
                "{title}: against hosts that do not authenticate at all the card changes the time by {:+.1} %: it takes no work from the hosts, and adds delays, which TCP may hide.",
                change * 100.0
            ));
        }
    }
    if said.is_empty() {
        return said;
    }
    said.extend(UNDERSTOOD.map(str::to_owned));
    said
}

/// The part of the paper's figures that the model explains, and the part that it cannot.
const UNDERSTOOD: [&str; 4] = [
    "Explained: a card saves time if, and only if, the hosts would compute the digest otherwise and their cores bind. Then the time falls by the digest's share of a core's time for a frame. 20 % means that the rest of a frame's work takes \
     four times as long as its digest, 2 % forty-nine times: slow hosts, such as emulated ones, have large rests.",
    "Not explained: the paper does not say whether its hosts with dumb cards compute the digest. If they do not, nothing in the model shortens the time.",
    "Not explained: why SHA-512 saves less. A byte of SHA-512 costs a core with SHA instructions more than one of SHA-256, so a card saves more, unless the card's own engine binds: the box woo-chung-sensitivity \
     shows the rate at which it does. On 64-bit cores without these instructions SHA-512 costs less.",
    "Not comparable: the rates of figure 3. The paper does not say what a transaction is, its guests' clock is QEMU's, and its BlueField does whole TLS in another work's setting. Ours show what the modelled engines and cores of a card add to a round trip.",
];

/// The section for a page, without its bars.
pub(super) fn html(figures: &Figures) -> String {
    let said = figures.said.iter();
    let said = said.map(|sentence| format!("<p class=\"sub\">{}</p>", escape(sentence)));
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpb_core::measure::Evidence;

    fn record(system: &str, digest: &str, application: &str, metric: &str, value: f64) -> Record {
        let model = format!("the system {FOLDER}{system}");
        let name = format!("{FOLDER}{system}");
        let asks = application == "ask";
        let boxed = systems().into_iter().find(|(known, set)| {
            *known == name && set.iter().any(|it| it.ends_with("application=ask")) == asks
        });
        let (_, set) = boxed.expect("the box has it");
        let mut record = Record::new(TASK, Evidence::Simulated { model }, 1)
            .with("system", name)
            .with("set", Vec::from_iter(set).join("; "))
            .with("digest", digest)
            .with("framing", "length")
            .with("application", application)
            .with("clients", 2_u64);
        record.sample(metric, vec![value; 10]);
        record
    }

    #[test]
    fn the_papers_numbers_stand_beside_ours_and_are_named() {
        let records = [
            record("dumb", "none", "send", "completion_s", 0.05),
            record("software", "sha256", "send", "completion_s", 0.08),
            record("card", "sha256", "send", "completion_s", 0.06),
            record("card", "sha256", "ask", RATE, 30_000.0),
        ];
        let figures = figures(&records, &BTreeSet::new()).expect("the paper's systems");
        let [rates, times] = figures.bars.as_slice() else {
            panic!("two figures")
        };
        assert_eq!(rates.kinds(), ["simulated", "published"]);
        // Two clients share the rate; the paper's hosts have their own.
        let values: Vec<f64> = rates.bars().map(|bar| bar.value).collect();
        assert_eq!(values, [15_000.0, 8497.0, 8395.0, 8397.0, 6300.0]);
        let values: Vec<f64> = times.bars().map(|bar| bar.value).collect();
        for (value, expected) in values.iter().zip([0.75, 1.2, 0.80]) {
            assert!((value - expected).abs() < 1e-9, "{values:?}");
        }
        assert_eq!(values.len(), 3);
        assert!(figures.said[0].contains("-25.0 %"), "{:?}", figures.said);
        assert!(figures.said[1].contains("+20.0 %"), "{:?}", figures.said);
        assert_eq!(figures.beside.len(), 4 + 2);
    }

    #[test]
    fn other_systems_have_no_such_figures() {
        let mut other = record("dumb", "none", "send", "completion_s", 0.05);
        other.parameters.insert("system".to_owned(), "plain".into());
        assert!(figures(&[other], &BTreeSet::new()).is_none());
        // Nor has one that was changed.
        let with = |digest: &str, set: &str| {
            let record = record("card", digest, "send", "completion_s", 0.05);
            figures(&[record.with("set", set)], &BTreeSet::new())
        };
        assert!(with("sha256", "card.stage.lanes=8").is_none());
        let sha512 =
            "card.digest.operator=sha512; card.stage[sha].job_ns=260; card.stage[sha].byte_ps=";
        assert!(with("sha512", &format!("{sha512}1250")).is_some());
        assert!(with("sha512", &format!("{sha512}12500")).is_none());
        // A card alone has nothing that it is held against.
        let card = record("card", "sha256", "send", "completion_s", 1.0);
        let alone = figures(&[card], &BTreeSet::new());
        let alone = alone.expect("a system of the paper");
        assert!(alone.said.is_empty());
    }
}
