//! Advice as records: a prediction for each test that would prove it wrong, under that test's own parameters, and the advice itself.

use dpb_core::Evidence;
use dpb_core::measure::{Record, Summary, Value};
use dpb_insight::advice::{Advice, Advisor, Goal, Load, Metric, Prices, Score, Threshold, knob};

use super::{Args, measure};

/// The records that predictions rest on.
fn evidence(advisor: &Advisor) -> Evidence {
    let kind = |of_device| advisor.time(of_device).kind().name();
    let mut from = advisor.host.ids();
    from.extend(advisor.device.ids());
    Evidence::Predicted {
        model: format!(
            "two bounds and a replay; {}: {}; {}: {}",
            advisor.host.backend,
            kind(false),
            advisor.device.backend,
            kind(true)
        ),
        from,
    }
}

/// A figure that is one value.
fn single(value: f64) -> Summary {
    Summary {
        median: value,
        ci95_low: None,
        ci95_high: None,
        samples: 1,
    }
}

/// A record for each side of each check: the test's parameters, the predicted figure, and its 90 % interval beside it.
pub(super) fn predicted(
    args: &Args,
    advisor: &Advisor,
    advice: &Advice,
    hash: &str,
) -> Vec<Record> {
    let commands = measure::commands(args, advisor, advice);
    let mut records: Vec<Record> = Vec::new();
    for check in &advice.checks {
        for (side, load, estimate) in [
            (&advisor.host, &check.host_load, &check.host),
            (&advisor.device, &check.device_load, &check.device),
        ] {
            if measure::found(&records, &side.backend, load).is_some()
                || !estimate.value.is_finite()
            {
                continue;
            }
            let mut record = Record::new("op", evidence(advisor), args.seed);
            for (name, value) in &side.work {
                record.parameters.insert(name.clone(), typed(value));
            }
            record = with_load(record.with("backend", side.backend.as_str()), load, args);
            if let Goal::Slo { jobs_per_s, .. } = advice.goal {
                record = record.with("mode", "open").with("rate", jobs_per_s);
            }
            let by_item = |ns: f64| ns / load.batch as f64;
            let per_s = |ns: f64| load.batch as f64 * 1e9 / ns;
            type Figure<'a> = (&'static str, &'a dyn Fn(f64) -> f64, bool);
            let (name, of, turns): Figure<'_> = match check.metric {
                Metric::Time => ("items_per_s", &per_s, true),
                Metric::HostTime => ("host_cpu_ns_per_item", &by_item, false),
                Metric::P99 => ("latency_ns_p99", &|ns| ns, false),
            };
            let (low, high) = match turns {
                true => (of(estimate.high), of(estimate.low)),
                false => (of(estimate.low), of(estimate.high)),
            };
            let figures = [
                (name.to_owned(), of(estimate.value)),
                (format!("{name}_low90"), low),
                (format!("{name}_high90"), high),
            ];
            for (name, value) in figures {
                if value.is_finite() {
                    record.summary.insert(name, single(value));
                }
            }
            let own = |words: &&Vec<String>| {
                let has = |flag: String| words.contains(&flag);
                has(format!("--backend={}", side.backend))
                    && has(format!("--depth={}", load.depth))
                    && has(format!("--threads={}", load.threads))
            };
            if let Some(words) = commands.iter().find(own) {
                let dpb = ["dpb".to_owned()];
                record.provenance.command = dpb.into_iter().chain(words.clone()).collect();
            }
            record
                .findings
                .insert("verdict".to_owned(), check.verdict.name().to_owned());
            record.findings.insert("sha256".to_owned(), hash.to_owned());
            records.push(record);
        }
    }
    records
}

fn with_load(record: Record, load: &Load, args: &Args) -> Record {
    record
        .with("size", load.size)
        .with("batch", load.batch)
        .with("threads", load.threads)
        .with("depth", load.depth)
        .with("mode", "closed")
        .with("seconds", args.seconds.as_secs_f64())
        .with("repeat", args.repeat)
}

/// A parameter's text as the value that it was.
fn typed(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) => Value::Int(number),
        Err(_) => Value::Text(text.to_owned()),
    }
}

/// The advice as a record.
pub(super) fn advice(
    args: &Args,
    advisor: &Advisor,
    advice: &Advice,
    hash: &str,
    score: Option<&Score>,
    prices: Option<&Prices>,
) -> Record {
    let operator = measure::operator(advisor);
    let mut record = Record::new("advise", evidence(advisor), args.seed)
        .with("operator", operator.as_str())
        .with("parameters", args.parameters.as_str())
        .with("host", advisor.host.backend.as_str())
        .with("device", advisor.device.backend.as_str())
        .with("goal", advice.goal.name())
        .with("batch", advice.batch)
        .with("repeat", args.repeat)
        .with("seconds", args.seconds.as_secs_f64())
        .with("verify", args.verify);
    let mut say = |name: &str, text: String| {
        record.findings.insert(name.to_owned(), text);
    };
    say("verdict", advice.verdict());
    say("sha256", hash.to_owned());
    say("assumes", advice.assumptions.join("; "));
    say(
        "would_prove_it_wrong",
        super::command_of(args, advisor, advice).join("\n"),
    );
    if let Some(last) = advice.at.last() {
        say("bound", last.bound.name().to_owned());
    }
    if let Some(size) = advice.decision.measure_next() {
        let text = format!("items of {size:.0} B, where the decision's interval is widest");
        say("measure_next", text);
    }
    let knobs = knob::lines(&operator, &advice.threshold, advice.device_share);
    if !knobs.is_empty() {
        say("knob", knobs.join("; "));
    }
    for (name, text) in &advice.findings {
        say(name, text.clone());
    }
    if let (Some(prices), Some(cores)) = (prices, advice.cores_freed) {
        say("price", prices.sentence(cores));
    }
    if let Some(score) = score {
        say("score", super::score_line(score));
        if !score.misses.is_empty() {
            say("misses", score.misses.join("; "));
        }
    }
    figures(&mut record, advice, score);
    record
}

fn figures(record: &mut Record, advice: &Advice, score: Option<&Score>) {
    let mut figure = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            record.summary.insert(name.to_owned(), single(value));
        }
    };
    if let Some(last) = advice.at.last() {
        figure("gain", Some(last.gain.value));
        figure("gain_low90", Some(last.gain.low));
        figure("gain_high90", Some(last.gain.high));
    }
    if let Threshold::From(place) | Threshold::UpTo(place) = advice.threshold {
        figure("threshold_bytes", Some(place.at));
        figure("threshold_bytes_low90", Some(place.low));
        figure("threshold_bytes_high90", Some(place.high));
    }
    if let Some(score) = score {
        score_figures(record, score);
    }
}

/// The figures of a score.
pub(super) fn score_figures(record: &mut Record, score: &Score) {
    let mut figure = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            record.summary.insert(name.to_owned(), single(value));
        }
    };
    let rules = score.rule_accuracy();
    for (name, value) in [
        ("coverage", score.coverage()),
        ("median_error", score.median_error),
        ("right", score.accuracy()),
        ("abstention", score.abstention()),
        ("rule_always", rules[0]),
        ("rule_never", rules[1]),
        ("rule_from_1024", rules[2]),
        ("worst_off_ns", Some(score.worst_off)),
    ] {
        figure(name, value);
    }
    let counts = [
        ("held", score.held),
        ("covered", score.covered),
        ("decisions", score.decisions),
        ("spoken", score.spoken),
        ("right", score.right),
        ("ties", score.ties),
    ];
    for (name, count) in counts {
        record.counts.insert(name.to_owned(), count as u64);
    }
}
