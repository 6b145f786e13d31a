//! Rule sets that are replaced while queues match payloads: each job answers as one committed rule set does, and as the newest one if it was
//! submitted after the commit. Right is what the crate regex finds.

#[path = "support/story.rs"]
mod story;

use std::sync::atomic::Ordering;

use dpb_core::{Buf, ChangeError, Items, Material, OpSpec, UnsupportedRules, spec};
use dpb_operators::security::rxpmatch::{Hyperscan, Match};
use regex::bytes::Regex;
use story::{Progress, Story, ask, tell};

/// Words of which each rule set looks for others.
const WORDS: [&str; 6] = ["route", "probe", "shell", "token", "union", "admin"];
const PAYLOADS: [&[u8]; 4] = [
    b"GET /admin?token=1 HTTP/1.1",
    b"union select token from shell",
    b"a probe on its route, and a probe behind it",
    b"nothing of note",
];
/// The most rules of a set.
const RULES: usize = 4;

/// The rules of the set with this number, two to four. The ids tell of which set they are.
fn rules(set: usize) -> Vec<(u32, String)> {
    let count = RULES - set % 3;
    let rule = |rule: usize| {
        let word = WORDS[(set + rule) % WORDS.len()];
        // Gaps keep the set from being a search for literals alone, now and then.
        let expression = format!("{word}{}", ["", "[^x]", ".?"][set % 3]);
        ((set * RULES + rule) as u32, expression)
    };
    (0..count).map(rule).collect()
}

fn file(set: usize) -> Vec<u8> {
    let lines = rules(set)
        .into_iter()
        .map(|(id, expression)| format!("{id}:/{expression}/s\n"));
    lines.collect::<String>().into_bytes()
}

/// The right outputs for all payloads: of each rule that matches the smallest end.
fn answer(set: usize) -> Vec<u8> {
    let rules = rules(set).into_iter().map(|(id, expression)| {
        // `.?` may match nothing, so the smallest end is that of the word.
        let expression = expression.replace(".?", "");
        (id, Regex::new(&expression).expect("an expression"))
    });
    let rules: Vec<_> = rules.collect();
    let mut outputs = Vec::new();
    for payload in PAYLOADS {
        for (id, rule) in &rules {
            if let Some(found) = rule.find(payload) {
                outputs.extend(id.to_le_bytes());
                outputs.extend((found.end() as u32).to_le_bytes());
            }
        }
    }
    outputs
}

/// Rule sets, one after the other.
fn rule_sets(commits: usize) -> Story {
    let bytes = PAYLOADS.concat();
    let mut input = Buf::zeroed(bytes.len()).expect("memory");
    input.copy_from_slice(&bytes);
    let mut offsets = vec![0];
    for payload in PAYLOADS {
        offsets.push(offsets.last().expect("the first") + payload.len() as u32);
    }
    Story {
        spec: OpSpec::from(spec::RxpMatch {
            rules: Material::public(file(0)),
            unsupported: UnsupportedRules::Refuse,
        }),
        input: input.freeze(),
        items: Items::Offsets(offsets.into()),
        output_bytes: RULES * Match::BYTES * PAYLOADS.len(),
        scripts: (1..=commits).map(file).collect(),
        answers: (0..=commits).map(answer).collect(),
    }
}

#[test]
fn each_job_sees_one_rule_set() {
    tell(&rule_sets(200), "cpu/tables");
    tell(&rule_sets(100), "cpu/portable");
    tell(&rule_sets(200), "pool/2");
    match Hyperscan::detect() {
        Some(_) => tell(&rule_sets(50), "cpu/hyperscan"),
        None => println!("skipped: cpu/hyperscan: needs {}", Hyperscan::NEEDS),
    }
}

#[test]
fn what_cannot_be_a_rule_set_changes_nothing() {
    let story = rule_sets(1);
    let operator = story.prepare("cpu/tables");
    let control = operator.control().expect("rules can be changed");
    let good = "# a comment\n1:/one/\n\n";
    for bad in ["2:/two", "1:/again/", "3:/(?=ahead)/", "x"] {
        let at = good.len();
        let file = format!("{good}{bad}\n4:/four/\n");
        let refused = control.change(file.as_bytes());
        assert_eq!(refused, Err(ChangeError::Malformed { at }), "{bad}");
    }
    let most: String = (0..=RULES).map(|id| format!("{id}:/a/\n")).collect();
    assert_eq!(control.change(most.as_bytes()), Err(ChangeError::Full));
    assert_eq!(control.commit(), Ok(0), "nothing was taken");
    ask(&story, &operator, &Progress::done(), 0);

    // Of several changes the last one counts, and nothing before the commit.
    assert_eq!(control.change(&most.as_bytes()[..6]), Ok(()));
    let again = operator.control().expect("the same handle");
    assert_eq!(again.change(&story.scripts[0]), Ok(()));
    let progress = Progress::done();
    ask(&story, &operator, &progress, 0);
    assert_eq!(control.commit(), Ok(1));
    progress.begun.store(1, Ordering::Release);
    progress.ended.store(1, Ordering::Release);
    ask(&story, &operator, &progress, 0);
}
