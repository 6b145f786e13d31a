//! Advice as records: a prediction for each test that would prove it wrong, under that test's own parameters, and the advice itself.

use dpb_core::Evidence;
use dpb_core::measure::{Provenance, Record, Summary};
use dpb_insight::advice::{
    Advice, Advisor, Estimate, Goal, Prices, Score, Threshold, Verdict, knob,
};

use super::{Answer, measure};

/// The records that predictions rest on.
fn evidence(advisor: &Advisor) -> Evidence {
    let kind = |of_device| advisor.time(of_device).kind().name();
    let mut from = advisor.host.ids();
    from.extend(advisor.device.ids());
    Evidence::Predicted {
        model: format!(
            "two bounds and a replay; host {}: {}; device {}: {}",
            advisor.host.backend,
            kind(false),
            advisor.device.backend,
            kind(true)
        ),
        from,
    }
}

/// A figure that is one value.
pub(super) fn single(value: f64) -> Summary {
    Summary {
        median: value,
        ci95_low: None,
        ci95_high: None,
        samples: 1,
    }
}

/// A figure and both ends of its interval, as far as they are numbers; `share` is behind the names of the ends: `90` of an interval of 90 %.
pub(super) fn with_ends(record: &mut Record, name: &str, estimate: &Estimate, share: &str) {
    for (name, value) in [
        (name.to_owned(), estimate.value),
        (format!("{name}_low{share}"), estimate.low),
        (format!("{name}_high{share}"), estimate.high),
    ] {
        if value.is_finite() {
            record.summary.insert(name, single(value));
        }
    }
}

/// A prediction about the test of `of` under other parameters: on its machine, by this command.
pub(super) fn prediction(of: &Record, evidence: Evidence, words: &[String]) -> Record {
    let mut record = Record::new(&of.task, evidence, of.provenance.seed);
    let dpb = ["dpb".to_owned()];
    record.parameters = of.parameters.clone();
    record.provenance = Provenance {
        run: record.provenance.run,
        started_unix_s: record.provenance.started_unix_s,
        command: dpb.into_iter().chain(words.iter().cloned()).collect(),
        ..of.provenance.clone()
    };
    record
}

/// A record for each prediction: the test's parameters, the figure with its 90 % interval, and the line that is hashed.
pub(super) fn predicted(answer: &Answer<'_>) -> Vec<Record> {
    let of_prediction = answer.predictions.iter().map(|one| {
        let command = answer.commands.iter().find(|it| it.measures(one));
        let words = command.map_or(&[][..], |command| &command.words);
        let of = &answer.of[usize::from(one.of_device)];
        let mut record = prediction(of, evidence(&answer.advisor), words)
            .with("size", one.load.size)
            .with("batch", one.load.batch)
            .with("threads", one.load.threads)
            .with("depth", one.load.depth)
            .with("seconds", measure::seconds(answer.args))
            .with("repeat", answer.args.repeat);
        if let Goal::Slo { jobs_per_s, .. } = answer.advice.goal {
            record = record.with("mode", "open").with("rate", jobs_per_s);
        }
        with_ends(&mut record, one.figure, &one.estimate, "90");
        let mut say = |name: &str, text: String| record.findings.insert(name.to_owned(), text);
        if let Some(verdict) = one.verdict {
            say("verdict", verdict.name().to_owned());
        }
        say("frozen", one.line.clone());
        say("sha256", answer.hash.clone());
        record
    });
    of_prediction.collect()
}

/// The advice as a record.
pub(super) fn advice(
    answer: &Answer<'_>,
    score: Option<&Score>,
    prices: Option<&Prices>,
) -> Record {
    let Answer {
        args,
        advisor,
        advice,
        ..
    } = answer;
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
    say("sha256", answer.hash.clone());
    say("assumes", advice.assumptions.join("; "));
    say("would_prove_it_wrong", answer.command_lines().join("\n"));
    if let Some(last) = advice.at.last() {
        say("bound", last.bound.name().to_owned());
    }
    if let Some(size) = advice.decision.measure_next() {
        let text = format!("items of {size:.0} B, where the decision's interval is widest");
        say("measure_next", text);
    }
    // A share is set where the split is sure to be better.
    let last = advice.at.last().map(|at| Verdict::of(&at.gain));
    let share = advice.device_share.filter(|_| last == Some(Verdict::Move));
    let knobs = knob::lines(&operator, &advice.decision, share);
    if !knobs.is_empty() {
        say("knob", knobs.join("; "));
    }
    for (name, text) in &advice.findings {
        say(name, text.clone());
    }
    let powers = (["host", "device"].iter().zip(&answer.of)).filter_map(|(side, record)| {
        let power = record.findings.get(measure::POWER)?;
        Some(format!("{power} while the {side} was measured"))
    });
    let powers: Vec<String> = powers.collect();
    if !powers.is_empty() {
        say(measure::POWER, powers.join("; "));
    }
    if let Some(prices) = prices {
        say(
            "price",
            match advice.cores_freed {
                Some(cores) => prices.sentence(cores),
                None => "not known, because the cores that are freed are not".to_owned(),
            },
        );
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
