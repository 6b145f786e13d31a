//! Advice about predicate pushdown: below which selectivity the storage should filter. Both schemes are measured without a pace, and over links of other
//! rates than the one that was named, from which the times over that one follow; --verify measures with its pace.

use dpb_core::Evidence;
use dpb_core::measure::statistics::{median, median_ci95};
use dpb_core::measure::{Ratio, Record};
use dpb_insight::advice::pushdown::{Measured, Scheme, Tables};
use dpb_insight::advice::{
    Decided, Decision, Estimate, Held, Score, Threshold, Verdict, advisor, side,
};

use super::records::{prediction, single, with_ends};
use super::{Args, Kept, score_line};
use crate::Globals;
use crate::cmd::replay;
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table, percent};

/// Selectivities that are measured without a pace.
const MEASURED: [f64; 2] = [0.001, 0.5];
/// Links over which both schemes are measured too, as parts of the link that was named.
const OTHER_LINKS: [f64; 3] = [0.5, 2.0, 4.0];
/// Selectivities that are measured over them.
const OVER_LINKS: [f64; 3] = [0.001, 0.05, 0.5];
/// Selectivities at which the predictions are checked.
const HELD: [f64; 6] = [0.003, 0.01, 0.03, 0.1, 0.2, 0.4];
/// Values of the axis.
const GRID: usize = 40;
/// One scheme at one selectivity.
#[derive(Clone, Debug)]
struct Ran {
    runs_s: Vec<f64>,
    tuples: f64,
    rows: f64,
    bytes: f64,
    transfer_s: f64,
    record: Record,
}

/// The time that a scheme is predicted to take at a selectivity, over the link.
#[derive(Clone, Debug)]
struct Predicted {
    selectivity: f64,
    /// True of the scan at the storage, false of the fetch.
    is_push: bool,
    seconds: Estimate,
    /// The decision, which is said once, of the scan at the storage.
    verdict: Option<Verdict>,
    /// All of it in a line, which is hashed.
    line: String,
}

/// The time that was measured without a pace.
#[derive(Clone, Debug)]
struct Alone {
    fetch: [Ran; 2],
    push: [Ran; 2],
}

/// All that was measured, and both schemes as functions of their parts.
#[derive(Clone, Debug)]
struct Known {
    alone: Alone,
    over_links: Vec<Ran>,
    fetch: Scheme,
    push: Scheme,
    link_bytes_per_s: f64,
}

/// Measures, advises, and with --verify checks.
pub(super) fn run(args: &Args, kept: &mut Kept, globals: &Globals) -> Result<(), Failure> {
    let bits_per_s = args.link.unwrap_or(0.0);
    let known = Known::measure(args, bits_per_s / 8.0, kept)?;
    let decision = Decision {
        gains: grid().map(|share| (share, known.gain(share))).collect(),
    };
    let predictions = known.predictions(bits_per_s / 1e9);
    let hash = advisor::frozen(predictions.iter().map(|one| one.line.as_str()));
    for one in &predictions {
        kept.keep(known.predicted(args, one, &hash))?;
    }
    let said = verdict(&decision);
    let mut record = known.record(args, &decision, &said, &hash);
    let score = match args.verify {
        true => {
            output::note(&format!(
                "predictions, before they are measured: sha256 {hash}"
            ));
            let paced = measured(args, bits_per_s / 1e9, &HELD, args.repeat)?;
            let score = known.score(&paced)?;
            for record in paced {
                kept.keep(record)?;
            }
            Some(score)
        }
        false => None,
    };
    if let Some(score) = &score {
        add_score(&mut record, score);
    }
    if globals.format() != Format::Json {
        output::print(&text(&known, args, &said, &hash, score.as_ref()))?;
    }
    kept.keep(record)
}

/// Selectivities from the first to the last measured one.
fn grid() -> impl Iterator<Item = f64> {
    let (low, high) = (MEASURED[0].ln(), MEASURED[1].ln());
    (0..=GRID).map(move |at| (low + (high - low) * at as f64 / GRID as f64).exp())
}

fn verdict(decision: &Decision) -> String {
    decision.said(|share| format!("a selectivity of {}", percent(share)))
}

fn words(args: &Args, link_gbps: f64, selectivities: &[f64], repeat: u64) -> Vec<String> {
    let shares: Vec<String> = selectivities.iter().map(ToString::to_string).collect();
    [
        "pushdown".to_owned(),
        format!("--sf={}", args.sf),
        "--threads=1".to_owned(),
        "--schemes=fetch,dpb".to_owned(),
        format!("--selectivity={}", shares.join(",")),
        format!("--link-gbps={link_gbps}"),
        format!("--repeat={repeat}"),
    ]
    .into()
}

fn measured(
    args: &Args,
    link_gbps: f64,
    selectivities: &[f64],
    repeat: u64,
) -> Result<Vec<Record>, Failure> {
    let mut words = words(args, link_gbps, selectivities, repeat);
    // They are kept with the advice.
    words.push("--out=/dev/null".to_owned());
    replay::again(&words)
}

/// A scheme at both measured selectivities.
fn both(records: &[Record], scheme: &str) -> Result<[Ran; 2], Failure> {
    let [few, many] = MEASURED;
    Ok([ran(records, scheme, few)?, ran(records, scheme, many)?])
}

fn ran(records: &[Record], scheme: &str, selectivity: f64) -> Result<Ran, Failure> {
    let is = |record: &&Record| {
        let text = |name: &str| record.parameters.get(name).map(ToString::to_string);
        text("scheme").as_deref() == Some(scheme)
            && text("selectivity").as_deref() == Some(&selectivity.to_string())
    };
    let record = records.iter().find(is);
    let record = record.ok_or_else(|| {
        Failure::check(format!(
            "no record of {scheme} at selectivity {selectivity}"
        ))
    })?;
    let values = |name: &str| {
        record
            .samples
            .get(name)
            .map(|it| it.values.clone())
            .unwrap_or_default()
    };
    let runs_s = values("run_s");
    let is_time = |value: &f64| value.is_finite() && *value > 0.0;
    if runs_s.is_empty() || !runs_s.iter().all(is_time) {
        return Err(Failure::unavailable(format!(
            "{scheme} has no time here: {}",
            output::verdict(record)
        )));
    }
    let by_run =
        |name: &str| record.counts.get(name).copied().unwrap_or(0) as f64 / runs_s.len() as f64;
    Ok(Ran {
        tuples: by_run("tuples"),
        rows: by_run("rows"),
        bytes: by_run("wire_bytes_from_agent") + by_run("bulk_bytes_from_agent"),
        transfer_s: median(&values("transfer_s")).unwrap_or(0.0),
        record: record.clone(),
        runs_s,
    })
}

impl Ran {
    fn seconds(&self) -> f64 {
        median(&self.runs_s).unwrap_or(f64::NAN)
    }

    /// Half the width of the median's interval, as a difference of logarithms; of too few runs that of all of them.
    fn spread(&self) -> f64 {
        let ends = |(low, high): (f64, f64), &run: &f64| (low.min(run), high.max(run));
        let all = || self.runs_s.iter().fold((f64::INFINITY, 0.0), ends);
        let (low, high) = median_ci95(&self.runs_s).unwrap_or_else(all);
        (high / low).ln() / 2.0
    }
}

impl Alone {
    /// Table, link and filters at a selectivity. Whoever filters is slower if more rows qualify, so both times lie on the lines between those
    /// measured.
    fn at(&self, selectivity: f64, link_bytes_per_s: f64) -> Tables {
        let share = (selectivity - MEASURED[0]) / (MEASURED[1] - MEASURED[0]);
        let between = |few: f64, many: f64| (few + share * (many - few)).max(1e-9);
        let filter_s = |ran: &Ran| ran.seconds() - ran.transfer_s;
        let [few, many] = &self.push;
        let scan_s = between(few.seconds(), many.seconds());
        let filter_s = between(filter_s(&self.fetch[0]), filter_s(&self.fetch[1]));
        Tables {
            rows: self.fetch[0].tuples,
            file_bytes: self.fetch[0].bytes,
            row_bytes: many.bytes / many.rows,
            link_bytes_per_s,
            scan_rows_per_s: few.tuples / scan_s,
            filter_rows_per_s: self.fetch[0].tuples / filter_s,
        }
    }
}

impl Known {
    /// Measures both schemes without a pace, and over the other links with half of the runs.
    fn measure(args: &Args, link_bytes_per_s: f64, kept: &mut Kept) -> Result<Self, Failure> {
        let no_advice = |why: String| Failure::check(format!("no advice: {why}"));
        let records = measured(args, 0.0, &MEASURED, args.repeat)?;
        let alone = Alone {
            fetch: both(&records, "fetch")?,
            push: both(&records, "dpb")?,
        };
        let tables = alone.at(MEASURED[0], link_bytes_per_s);
        tables.check().map_err(no_advice)?;
        let mut over_links = Vec::new();
        let mut points = [Vec::new(), Vec::new()];
        for record in records {
            kept.keep(record)?;
        }
        for part in OTHER_LINKS {
            let bytes_per_s = part * link_bytes_per_s;
            let gbps = bytes_per_s * 8.0 / 1e9;
            let records = measured(args, gbps, &OVER_LINKS, args.repeat.div_ceil(2))?;
            for selectivity in OVER_LINKS {
                let tables = alone.at(selectivity, bytes_per_s);
                let parts = [tables.fetch(), tables.push(selectivity)];
                for ((scheme, parts), points) in ["fetch", "dpb"].iter().zip(parts).zip(&mut points)
                {
                    let ran = ran(&records, scheme, selectivity)?;
                    let seconds = ran.seconds();
                    points.push(Measured { parts, seconds });
                    over_links.push(ran);
                }
            }
            for record in records {
                kept.keep(record)?;
            }
        }
        let [fetch, push] = points.map(|points| Scheme::fit(&points).map_err(no_advice));
        Ok(Self {
            alone,
            over_links,
            fetch: fetch?,
            push: push?,
            link_bytes_per_s,
        })
    }

    /// Seconds of a fetch and of a scan at the storage, with intervals that are wider by the spread of the runs that they rest on.
    fn seconds(&self, selectivity: f64) -> [Estimate; 2] {
        let tables = self.alone.at(selectivity, self.link_bytes_per_s);
        let spread = |runs: &[Ran; 2]| [runs.iter().map(Ran::spread).fold(0.0, f64::max); 2];
        [
            self.fetch
                .at(tables.fetch())
                .widened(spread(&self.alone.fetch)),
            self.push
                .at(tables.push(selectivity))
                .widened(spread(&self.alone.push)),
        ]
    }

    /// The factor by which the storage is faster.
    fn gain(&self, selectivity: f64) -> Estimate {
        let [fetch, push] = self.seconds(selectivity);
        fetch.over(&push)
    }

    /// The predictions for the selectivities that are held out.
    fn predictions(&self, link_gbps: f64) -> Vec<Predicted> {
        let mut all = Vec::new();
        for selectivity in HELD {
            let seconds = self.seconds(selectivity);
            for (is_push, seconds) in [false, true].into_iter().zip(seconds) {
                let verdict = is_push.then(|| Verdict::of(&self.gain(selectivity)));
                let line = format!(
                    "{} selectivity={selectivity} link_gbps={link_gbps} run_s={:e} low={:e} high={:e}{}",
                    if is_push { "dpb" } else { "fetch" },
                    seconds.value,
                    seconds.low,
                    seconds.high,
                    verdict.map_or(String::new(), |verdict| format!(" {}", verdict.name()))
                );
                all.push(Predicted {
                    selectivity,
                    is_push,
                    seconds,
                    verdict,
                    line,
                });
            }
        }
        all
    }

    /// A prediction as a record: its test's parameters but for the condition, which is looked for when the test runs.
    fn predicted(&self, args: &Args, one: &Predicted, hash: &str) -> Record {
        let gbps = args.link.unwrap_or(0.0) / 1e9;
        let of = match one.is_push {
            true => &self.alone.push[0].record,
            false => &self.alone.fetch[0].record,
        };
        let mut record = prediction(of, self.evidence(), &words(args, gbps, &HELD, args.repeat))
            .with("selectivity", one.selectivity)
            .with("link_gbps", gbps);
        record.parameters.remove("where");
        with_ends(&mut record, "run_s", &one.seconds, "");
        let mut say = |name: &str, text: String| record.findings.insert(name.to_owned(), text);
        if let Some(verdict) = one.verdict {
            say("verdict", verdict.name().to_owned());
        }
        say("frozen", one.line.clone());
        say("sha256", hash.to_owned());
        record
    }

    /// The command that measures the predictions.
    fn command(&self, args: &Args) -> String {
        let gbps = args.link.unwrap_or(0.0) / 1e9;
        format!(
            "dpb {}  # on {}",
            words(args, gbps, &HELD, args.repeat).join(" "),
            side::machine(&self.alone.fetch[0].record)
        )
    }

    fn runs(&self) -> impl Iterator<Item = &Ran> {
        let alone = self.alone.fetch.iter().chain(&self.alone.push);
        alone.chain(&self.over_links)
    }

    fn evidence(&self) -> Evidence {
        Evidence::Predicted {
            model: "fetch and scan over other links".to_owned(),
            from: self.runs().map(|ran| ran.record.id.clone()).collect(),
        }
    }

    /// Assumptions, and remarks on the records that it rests on.
    fn assumptions(&self) -> String {
        let named = [("a fetch", &self.fetch), ("a scan", &self.push)];
        let mut said: Vec<String> = named
            .iter()
            .map(|(name, scheme)| {
                let (share, fixed_s) = scheme.fitted();
                format!(
                    "{name} takes its longer part, {} of the shorter one, and {}",
                    percent(share),
                    output::short_ns(fixed_s * 1e9)
                )
            })
            .collect();
        let is_disturbed = |ran: &&Ran| {
            let stability = ran.record.stability.as_ref();
            stability.is_some_and(|it| it.disturbed)
        };
        let disturbed = self.runs().filter(is_disturbed).count();
        if disturbed > 0 {
            let all = self.runs().count();
            said.push(format!(
                "{disturbed} of {all} records were disturbed by other work"
            ));
        }
        said.join("; ")
    }

    fn score(&self, paced: &[Record]) -> Result<Score, Failure> {
        let (mut held, mut decided) = (Vec::new(), Vec::new());
        for share in HELD {
            let [fetch_s, push_s] = self.seconds(share);
            let fetch = ran(paced, "fetch", share)?;
            let push = ran(paced, "dpb", share)?;
            for (scheme, predicted, side) in [("fetch", fetch_s, &fetch), ("dpb", push_s, &push)] {
                // In nanoseconds, as everything else that is scored.
                held.push(Held {
                    name: format!("{scheme} at {}", percent(share)),
                    predicted: predicted.map(|s| s * 1e9),
                    measured: side.seconds() * 1e9,
                });
            }
            let interval = Ratio::of(&fetch.runs_s, &push.runs_s).and_then(|ratio| ratio.ci95);
            let (low, high) = interval.unwrap_or((0.0, f64::INFINITY));
            decided.push(Decided {
                name: format!("pushing at {}", percent(share)),
                size: u64::MAX,
                verdict: Verdict::of(&self.gain(share)),
                truth: Estimate {
                    value: fetch.seconds() / push.seconds(),
                    low,
                    high,
                },
            });
        }
        Ok(Score::of(&held, &decided))
    }

    fn record(&self, args: &Args, decision: &Decision, said: &str, hash: &str) -> Record {
        let mut record = Record::new("advise", self.evidence(), args.seed)
            .with("goal", "pushdown")
            .with("link", args.link.unwrap_or(0.0))
            .with("sf", args.sf)
            .with("repeat", args.repeat)
            .with("verify", args.verify);
        for (name, text) in [
            ("verdict", said.to_owned()),
            ("sha256", hash.to_owned()),
            ("assumes", self.assumptions()),
            ("would_prove_it_wrong", self.command(args)),
        ] {
            record.findings.insert(name.to_owned(), text);
        }
        if let Threshold::UpTo(place) = decision.threshold() {
            for (name, value) in [
                ("threshold_selectivity", place.at),
                ("threshold_selectivity_low", place.low),
                ("threshold_selectivity_high", place.high),
            ] {
                record.summary.insert(name.to_owned(), single(value));
            }
        }
        record
    }
}

fn add_score(record: &mut Record, score: &Score) {
    record
        .findings
        .insert("score".to_owned(), score_line(score));
    if !score.misses.is_empty() {
        record
            .findings
            .insert("misses".to_owned(), score.misses.join("; "));
    }
    super::records::score_figures(record, score);
}

fn text(known: &Known, args: &Args, said: &str, hash: &str, score: Option<&Score>) -> String {
    let mut table = Table::new([
        Column::right("selectivity"),
        Column::right("fetch, s"),
        Column::right("interval"),
        Column::right("push, s"),
        Column::right("interval"),
        Column::left("advice"),
    ]);
    for share in HELD {
        let [fetch, push] = known.seconds(share);
        table.row([
            percent(share),
            format!("{:.3}", fetch.value),
            format!("{:.3} .. {:.3}", fetch.low, fetch.high),
            format!("{:.3}", push.value),
            format!("{:.3} .. {:.3}", push.low, push.high),
            Verdict::of(&known.gain(share)).name().to_owned(),
        ]);
    }
    let gbps = args.link.unwrap_or(0.0) / 1e9;
    let mut text = format!(
        "predicates of lineitem at the storage, {gbps} Gbit/s: {said}\n\n{}\nassumes: {}\nwould prove it wrong (sha256 {hash}):\n  {}\n",
        table.to_text(),
        known.assumptions(),
        known.command(args)
    );
    if let Some(score) = score {
        text.push_str(&format!("\nmeasured: {}\n", score_line(score)));
        for miss in &score.misses {
            text.push_str(&format!("  missed: {miss}\n"));
        }
    }
    text
}
