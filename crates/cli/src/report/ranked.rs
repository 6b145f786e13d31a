//! Platforms by their records, ranked: which tests are the same, what classes they are of, and which platforms have enough of them.

use std::collections::{BTreeMap, BTreeSet};

use dpb_core::measure::comparison::{Better, Declared, OF_PRECISION, Subject};
use dpb_core::measure::import::Program;
use dpb_core::measure::{Outcome, Record};
use dpb_insight::rank::left_out::{self, LeftOut};
use dpb_insight::rank::{Measurement, Ranking};
use dpb_operators::registry;

use super::origin::Machines;
use super::published;
use crate::operators;
use crate::shown::ShownTasks;
use crate::spec;

/// The things that are ranked, and the way.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The platform that ratios are held against; else the first by name.
    pub reference: Option<String>,
    /// Parameters in which tests may differ.
    pub ignored: BTreeSet<String>,
    /// True if papers' numbers of the same tests take part.
    pub published: bool,
    /// True if records of different evidence are ranked together.
    pub across_evidence: bool,
    /// True if records count although other work disturbed them.
    pub despite_interference: bool,
}

/// A ranking, and what a reader must know of it.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The ranking itself.
    pub ranking: Ranking,
    /// By platform, the kind of evidence of its records.
    pub kinds: Vec<&'static str>,
    /// The order without each platform.
    pub left_out: Vec<LeftOut>,
    /// Sentences about tests that were left out, and about mixed ones.
    pub notes: Vec<String>,
}

/// Parameters that say nothing of what is measured.
const APART: [&str; 9] = [
    "where",
    "output",
    "file",
    "server",
    "data_dir",
    "classes",
    "instances",
    "platform",
    "seed",
];
/// The parameter that a test's name begins with.
const SUBJECTS: [&str; 4] = ["operator", "stressor", "query", "scheme"];
/// The share of the tests that two platforms have which a platform must have, to be ranked.
const TESTS_SHARE_MIN: f64 = 0.5;

/// A record as a measurement, before its test has a name.
struct Known {
    task: String,
    /// Parameters, metric and, of imported results, the program's version.
    parameters: BTreeMap<String, String>,
    platform: String,
    kind: &'static str,
    classes: Vec<String>,
    runs: Vec<f64>,
}

/// Ranks the platforms of records.
///
/// # Errors
/// The reason why there is nothing to rank, for a person.
pub fn rank(records: &[Record], known: &ShownTasks, wanted: &Wanted) -> Result<Ranked, String> {
    let declared = known.declared();
    let machines = Machines::of(records);
    let tasks: BTreeSet<&str> = records.iter().map(|record| record.task.as_str()).collect();
    let papers: BTreeMap<&str, Vec<Record>> = match wanted.published {
        true => tasks
            .into_iter()
            .map(|task| (task, published::of_task(task)))
            .collect(),
        false => BTreeMap::new(),
    };
    let mut notes = Vec::new();
    let mut all = Vec::new();
    let (mut disturbed, mut without_numbers, mut not_positive) = (0, 0, 0);
    for record in records {
        if record.outcome != Outcome::Done {
            without_numbers += 1;
            continue;
        }
        let is_disturbed = record
            .stability
            .as_ref()
            .is_some_and(|verdict| verdict.disturbed);
        if is_disturbed && !wanted.despite_interference {
            disturbed += 1;
            continue;
        }
        let platform = match record.parameters.get("platform") {
            Some(platform) if record.evidence.kind() == "published" => platform.to_string(),
            _ => machines.name(record),
        };
        let subject = Subject::of(record, &declared);
        // A run of nothing has no logarithm, and no rank.
        let is_positive = |run: &f64| run.is_finite() && *run > 0.0;
        if subject
            .as_ref()
            .is_some_and(|it| !it.runs.iter().all(is_positive))
        {
            not_positive += 1;
            continue;
        }
        all.extend(Known::of(record, subject, &platform, wanted));
        if let Some(numbers) = papers.get(record.task.as_str()) {
            all.extend(of_papers(record, &platform, numbers, &declared, wanted));
        }
    }
    let dropped = [
        (disturbed, "were disturbed by other work"),
        (without_numbers, "have no numbers"),
        (not_positive, "have a run of zero or less"),
    ];
    for (count, why) in dropped.iter().filter(|(count, _)| *count > 0) {
        notes.push(format!("{count} tests {why}, and are left out."));
    }
    let kinds: BTreeSet<&str> = all.iter().map(|one| one.kind).collect();
    if kinds.len() > 1 {
        let kinds = kinds.iter().copied().collect::<Vec<_>>().join(" and ");
        if !wanted.across_evidence {
            return Err(format!(
                "the records are {kinds}, which are ranked together with --across-evidence alone"
            ));
        }
        notes.push(format!("Across evidence: {kinds} numbers, of other machines and methods, are ranked together; each platform says which it is."));
        for one in &mut all {
            one.platform = format!("{} ({})", one.platform, one.kind);
        }
    }
    let all = enough(newest(all), &mut notes);
    let measurements = named(&all);
    let ranking = Ranking::of(&measurements, reference(&all, wanted).as_deref())
        .map_err(|error| error.to_string())?;
    if ranking.classes.is_empty() {
        notes.push("No test is on all platforms, so nothing is averaged.".to_owned());
    }
    let kind = |platform: &String| {
        all.iter()
            .find(|one| one.platform == *platform)
            .map_or("", |one| one.kind)
    };
    Ok(Ranked {
        kinds: ranking.platforms.iter().map(kind).collect(),
        left_out: left_out::each(&measurements, &ranking).map_err(|error| error.to_string())?,
        ranking,
        notes,
    })
}

/// The platform that was asked for, by its name with or without its kind.
fn reference(all: &[Known], wanted: &Wanted) -> Option<String> {
    let name = wanted.reference.as_ref()?;
    let with_kind = all
        .iter()
        .find(|one| one.platform == format!("{name} ({})", one.kind));
    Some(with_kind.map_or_else(|| name.clone(), |one| one.platform.clone()))
}

impl Known {
    /// The subject of the test: the operator, the stressor, the query.
    fn subject(&self) -> Vec<&str> {
        let subject = SUBJECTS
            .iter()
            .filter_map(|name| self.parameters.get(*name));
        subject.map(String::as_str).collect()
    }

    fn of(
        record: &Record,
        subject: Option<Subject>,
        platform: &str,
        wanted: &Wanted,
    ) -> Option<Self> {
        let subject = subject?;
        let is_own = |name: &str| {
            !OF_PRECISION.contains(&name)
                && !APART.contains(&name)
                && !wanted.ignored.contains(name)
        };
        let own = record.parameters.iter().filter(|(name, _)| is_own(name));
        let mut parameters: BTreeMap<String, String> = own
            .map(|(name, value)| (name.clone(), value.to_string()))
            .collect();
        parameters.insert("metric".to_owned(), subject.metric);
        // What another program counts is alike in one version of it.
        if Program::ALL
            .iter()
            .any(|program| program.name() == record.task)
        {
            let version = record.provenance.libraries.get(&record.task);
            parameters.extend(version.map(|version| ("version".to_owned(), version.clone())));
        }
        let runs = subject.runs.into_iter().map(|run| match subject.better {
            Better::More => run,
            Better::Less => 1.0 / run,
        });
        let runs: Vec<f64> = runs.collect();
        // A run of nothing has no logarithm, and no rank.
        runs.iter()
            .all(|run| run.is_finite() && *run > 0.0)
            .then(|| Self {
                task: record.task.clone(),
                parameters,
                platform: platform.to_owned(),
                kind: record.evidence.kind(),
                classes: classes(record),
                runs,
            })
    }
}

/// The values that papers have of a record's test, and the record by the same metric.
fn of_papers(
    record: &Record,
    platform: &str,
    numbers: &[Record],
    declared: &BTreeMap<String, Vec<Declared>>,
    wanted: &Wanted,
) -> Vec<Known> {
    if record.evidence.kind() == "published" {
        return Vec::new();
    }
    let mut found = Vec::new();
    for number in numbers {
        let Some(own) = published::number_of(record, number) else {
            continue;
        };
        let metrics: Vec<&String> = own
            .summary
            .keys()
            .filter(|name| record.summary.contains_key(*name))
            .collect();
        for metric in metrics {
            let of = |record: &Record, platform: &str| {
                Known::of(
                    record,
                    Subject::by(record, metric, declared),
                    platform,
                    wanted,
                )
            };
            let theirs = number.parameters.get("platform").map(ToString::to_string);
            found.extend(of(&own, &theirs.unwrap_or_default()));
            found.extend(of(record, platform));
        }
    }
    found
}

/// The last record of each test and platform, in the order of the first ones.
fn newest(all: Vec<Known>) -> Vec<Known> {
    let mut places = BTreeMap::new();
    let mut kept: Vec<Known> = Vec::new();
    for one in all {
        let key = (
            one.task.clone(),
            one.parameters.clone(),
            one.platform.clone(),
        );
        match places.get(&key) {
            Some(&place) => kept[place] = one,
            None => {
                places.insert(key, kept.len());
                kept.push(one);
            }
        }
    }
    kept
}

/// The tests that two platforms have, on platforms that have enough of these.
fn enough(all: Vec<Known>, notes: &mut Vec<String>) -> Vec<Known> {
    let test = |one: &Known| (one.task.clone(), one.parameters.clone());
    let shared = |all: &[Known]| {
        let mut platforms = BTreeMap::<_, BTreeSet<String>>::new();
        for one in all {
            platforms
                .entry(test(one))
                .or_default()
                .insert(one.platform.clone());
        }
        platforms.retain(|_, platforms| platforms.len() > 1);
        platforms
    };
    let tests = shared(&all);
    let least = TESTS_SHARE_MIN * tests.len() as f64;
    let own = |platform: &String| {
        tests
            .values()
            .filter(|platforms| platforms.contains(platform))
            .count()
    };
    let platforms: BTreeSet<String> = all.iter().map(|one| one.platform.clone()).collect();
    let (kept, few): (BTreeSet<String>, BTreeSet<String>) = platforms
        .into_iter()
        .partition(|platform| own(platform) as f64 >= least);
    if !few.is_empty() && !tests.is_empty() {
        let few = few
            .iter()
            .map(|platform| format!("{platform} ({} tests)", own(platform)));
        notes.push(format!(
            "Left out, with fewer than half of the {} tests that two platforms have: {}.",
            tests.len(),
            few.collect::<Vec<_>>().join(", ")
        ));
    }
    let all: Vec<Known> = all
        .into_iter()
        .filter(|one| kept.contains(&one.platform))
        .collect();
    let tests = shared(&all);
    all.into_iter()
        .filter(|one| tests.contains_key(&test(one)))
        .collect()
}

/// The measurements, each test by a name that no other has: its task where there are several, its subject, and what tells tests of one subject apart.
fn named(all: &[Known]) -> Vec<Measurement> {
    let tasks: BTreeSet<&str> = all.iter().map(|one| one.task.as_str()).collect();
    let mut groups = BTreeMap::<(&str, Vec<&str>), Vec<&Known>>::new();
    for one in all {
        let group = groups.entry((&one.task, one.subject())).or_default();
        group.push(one);
    }
    let mut measurements = Vec::with_capacity(all.len());
    for ((task, subject), own) in groups {
        let names: BTreeSet<&String> = own.iter().flat_map(|one| one.parameters.keys()).collect();
        let varies = |name: &&String| {
            let values: BTreeSet<_> = own.iter().map(|one| one.parameters.get(*name)).collect();
            values.len() > 1
        };
        let told: Vec<&String> = names.into_iter().filter(varies).collect();
        let task = (tasks.len() > 1 || subject.is_empty()).then_some(task);
        let words: Vec<&str> = task.into_iter().chain(subject).collect();
        for one in own {
            let values = told
                .iter()
                .filter_map(|name| Some((name, one.parameters.get(*name)?)));
            let values = values.map(|(name, value)| format!("{}={value}", spec::bare(name)));
            let words = words.iter().map(|&word| word.to_owned());
            measurements.push(Measurement {
                test: words.chain(values).collect::<Vec<_>>().join(" "),
                classes: one.classes.clone(),
                platform: one.platform.clone(),
                runs: one.runs.clone(),
            });
        }
    }
    measurements
}

/// The classes of a record's work: stress-ng's own where the record has them, and of dpb's tasks the same words where they fit.
fn classes(record: &Record) -> Vec<String> {
    if let Some(classes) = record.parameters.get("classes") {
        let classes = classes.to_string();
        return classes
            .split('|')
            .map(|class| class.trim().to_owned())
            .collect();
    }
    let classes: &[&str] = match record.task.as_str() {
        "op" => of_operator(record),
        "memory" => &["MEMORY"],
        "storage" | "fio" => &["IO"],
        "tcp" | "rdma" | "iperf3" | "perftest" => &["NETWORK"],
        "pushdown" | "index" | "dbms" => &["DATABASE"],
        task if task.starts_with("net ") => &["NETWORK"],
        _ => &[],
    };
    classes.iter().map(|&class| class.to_owned()).collect()
}

fn of_operator(record: &Record) -> &'static [&'static str] {
    let name = record.parameters.get("operator").map(ToString::to_string);
    let mut entries = registry::OPERATORS.iter().chain(operators::DATABASE);
    let entry = entries.find(|entry| name.as_deref() == Some(entry.name));
    match entry.map(|entry| entry.scenario) {
        Some("network") => &["CPU", "PACKET"],
        Some("security") => &["CPU", "CRYPTO"],
        Some("storage") => &["CPU", "STORAGE"],
        Some("database") => &["CPU", "DATABASE"],
        _ => &["CPU"],
    }
}
