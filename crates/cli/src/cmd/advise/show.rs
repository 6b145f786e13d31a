//! Advice for a person: the verdict first, then why, then what would prove it wrong.

use std::fmt::Write;

use dpb_core::measure::Record;
use dpb_insight::advice::{Advice, Estimate, Goal, Score, Side, Threshold, Verdict};

use super::{Answer, measure, score_line};
use crate::output::{Column, Table, short_ns};
use crate::report::pays::bytes;

/// The advice.
pub(super) fn text(answer: &Answer<'_>, score: Option<&Score>, record: &Record) -> String {
    let (advisor, advice) = (&answer.advisor, &answer.advice);
    let mut text = format!(
        "{} of {} from {} to {}: {}\n",
        measure::operator(advisor),
        match advice.batch {
            1 => "1 item".to_owned(),
            batch => format!("{batch} items"),
        },
        answer.name(false),
        answer.name(true),
        advice.verdict()
    );
    if let Threshold::From(place) | Threshold::UpTo(place) = &advice.threshold {
        let _ = writeln!(
            text,
            "threshold {} (90 % interval {} to {})",
            bytes(place.at),
            bytes(place.low),
            bytes(place.high)
        );
    }
    let _ = write!(text, "\n{}", sizes(advice).to_text());
    text.push('\n');
    let said = |name: &str| record.findings.get(name);
    for (title, name) in [
        ("limited by", "bound"),
        ("measure next", "measure_next"),
        ("host", "host_model"),
        ("device", "device_model"),
        ("gain", "gain_model"),
        ("batch", "batch"),
        ("depth", "depth"),
        ("split", "split"),
        ("cores freed", "cores_freed"),
        ("price", "price"),
        ("power", "power"),
        ("limit", "limit"),
        ("capacity", "capacity"),
        ("rates", "rate_threshold"),
        ("setting", "knob"),
        ("assumes", "assumes"),
    ] {
        if let Some(line) = said(name) {
            let _ = writeln!(text, "{title}: {line}");
        }
    }
    let [host, device] = [&advisor.host, &advisor.device].map(Side::ids);
    let _ = writeln!(
        text,
        "rests on: {} records, {} to {} and {} to {}",
        host.len() + device.len(),
        ends(&host).0,
        ends(&host).1,
        ends(&device).0,
        ends(&device).1
    );
    let _ = write!(
        text,
        "\nwould prove it wrong (sha256 {}):\n{}",
        answer.hash,
        checks(advice).to_text()
    );
    for command in answer.command_lines() {
        let _ = writeln!(text, "  {command}");
    }
    if let Some(score) = score {
        let _ = writeln!(text, "\nmeasured: {}", score_line(score));
        for miss in &score.misses {
            let _ = writeln!(text, "  missed: {miss}");
        }
    }
    text
}

fn ends(ids: &[String]) -> (&str, &str) {
    (
        ids.first().map_or("-", String::as_str),
        ids.last().map_or("-", String::as_str),
    )
}

fn interval(estimate: &Estimate, of: impl Fn(f64) -> String) -> String {
    let end = |value: f64| match value.is_finite() && value > 0.0 {
        true => of(value),
        false => "open".to_owned(),
    };
    format!("{} .. {}", end(estimate.low), end(estimate.high))
}

fn time(ns: f64) -> String {
    match ns.is_finite() {
        true => short_ns(ns),
        false => "cannot keep up".to_owned(),
    }
}

fn sizes(advice: &Advice) -> Table {
    let of = match advice.goal {
        Goal::Cores => "host CPU a job",
        Goal::Slo { .. } => "p99",
        _ => "time a job",
    };
    let device = match advice.goal {
        Goal::Split => "both",
        _ => "device",
    };
    let mut table = Table::new([
        Column::right("size"),
        Column::right(format!("host, {of}")),
        Column::right(format!("{device}, {of}")),
        Column::right("gain"),
        Column::right("90 % interval"),
        Column::left("advice"),
    ]);
    for at in &advice.at {
        table.row([
            bytes(at.size as f64),
            time(at.host_ns.value),
            time(at.device_ns.value),
            format!("{:.2}x", at.gain.value),
            interval(&at.gain, |value| format!("{value:.2}")),
            Verdict::of(&at.gain).name().to_owned(),
        ]);
    }
    table
}

fn checks(advice: &Advice) -> Table {
    let mut table = Table::new([
        Column::right("size"),
        Column::right("in flight"),
        Column::right("host, predicted"),
        Column::right("90 % interval"),
        Column::right("device, predicted"),
        Column::right("90 % interval"),
        Column::left("advice"),
    ]);
    for check in &advice.checks {
        table.row([
            bytes(check.device_load.size as f64),
            check.device_load.in_flight().to_string(),
            time(check.host.value),
            interval(&check.host, short_ns),
            time(check.device.value),
            interval(&check.device, short_ns),
            check.verdict.name().to_owned(),
        ]);
    }
    table
}
