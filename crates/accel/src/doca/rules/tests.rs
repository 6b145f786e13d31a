//! Rules for NVIDIA's compiler, beside what software makes of the same file.

use std::collections::HashSet;

use dpb_core::{Material, OpSpec, Workload, spec};
use dpb_operators::registry::{self, Case};
use dpb_operators::security::rxpmatch::{RuleSet, Rules};

use super::*;

fn read(file: &str) -> Result<String, String> {
    let translated = translated(file.as_bytes(), UnsupportedRules::Refuse)?;
    assert_eq!(
        translated.rules,
        translated.text.split(|b| *b == b'\n').count() - 1
    );
    Ok(String::from_utf8(translated.text).expect("ASCII"))
}

#[test]
fn rules_are_written_in_few_words() {
    for (rule, line) in [
        ("7:/abc/", "7, /abc/"),
        ("7:/a b#/x", "7, /ab/"),
        ("7:/a.b/", r"7, /a[\x00-\x09\x0b-\xff]b/"),
        ("7:/a.b/s", r"7, /a[\x00-\xff]b/"),
        ("7:/a1_/i", r"7, /[Aa]1\x5f/"),
        ("7:/[^\\W\\d]/", r"7, /[A-Z\x5fa-z]/"),
        (r"7:/\/\x2f\Q.*\E/", r"7, /\x2f\x2f\x2e\x2a/"),
        (
            "7:/a+?b*c?d{2}e{2,}f{2,3}g{1}h{0}/",
            "7, /a+b*c?d{2}e{2,}f{2,3}g/",
        ),
        ("7:/(?:ab)+(c|de)(?i:f)/", "7, /(ab)+(c|de)[Ff]/"),
        ("7:/a(|b|c)(d|)/", "7, /a(b|c)?(d)?/"),
        ("7:/a(|)b(c{0}){3}/", "7, /ab/"),
        (r"7:/^a|\Ab/", "7, /(^a|^b)/"),
        ("7:/^a$/m", "7, /^a$/m"),
        ("7:/(?m:a$)/", "7, /a$/m"),
        ("9:/b/\n# none\n\n2:/a/HV", "2, /a/\n9, /b/"),
    ] {
        assert_eq!(read(rule), Ok(format!("{line}\n")), "{rule}");
    }
}

#[test]
fn what_is_read_otherwise_is_refused() {
    for (rule, why) in [
        (r"7:/a\b/", "word boundary"),
        (r"7:/a\Bb/", "word boundary"),
        ("7:/a$/", "`$` without the flag m"),
        (r"7:/a\z/m", "`$` without the flag m"),
        ("7:/a^b/m", "`^` behind something"),
        ("7:/(a|^b)^c/m", "`^` behind something"),
        ("7:/(^a)*b/m", "in what is repeated"),
        ("7:/(^|)b/m", "need not hold"),
        (r"7:/\Aa$/m", "`^` of the payload in a rule of lines"),
        ("7:/[^\\x00-\\xff]a/", "class of no byte"),
        ("7:/(a|b*)/", "matches no bytes"),
        ("7:/[0-9a-f]{30000}/", "as large as this one"),
    ] {
        let said = read(rule).expect_err(rule);
        assert!(
            said.starts_with("rule 7: the engine takes no ") && said.contains(why),
            "{rule}: {said}"
        );
    }
    assert!(read("7:/a/\n8").is_err_and(|said| said.starts_with("rules: line 2: ")));
    assert!(read("# none").is_err());
}

/// The workload of `rules`, on payloads of `set`.
fn workload(rules: &str, set: RuleSet) -> Box<dyn Workload> {
    let spec = OpSpec::from(spec::RxpMatch {
        rules: Material::public(rules.as_bytes()),
        unsupported: UnsupportedRules::Refuse,
    });
    let entry = registry::find("rxpmatch").expect("registered");
    let case = Case::from(spec).with("set", set.name());
    entry.workload(case).expect("rules")
}

/// Checked by the operator's own oracle, which reads what was written as a rule file.
#[test]
fn rules_written_anew_match_the_same() {
    for set in RuleSet::ALL {
        let entry = registry::find("rxpmatch").expect("registered");
        let case = entry.case(&format!("set={}", set.name()));
        let spec = case.expect("a set").spec;
        let spec::RxpMatch { rules, .. } = registry::own(&spec);
        let file = String::from_utf8(rules.bytes().to_vec()).expect("text");
        let is_rule = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let all: Vec<&str> = file.lines().filter(is_rule).collect();
        let (mut asked, mut written) = (Vec::new(), Vec::new());
        for rule in &all {
            if let Ok(line) = read(rule) {
                asked.push(*rule);
                written.push(line.trim_end().replacen(", /", ":/", 1));
            }
        }
        assert!(asked.len() * 2 > all.len(), "{}", set.name());
        let asked = workload(&asked.join("\n"), set);
        let written = workload(&written.join("\n"), set);
        let input = asked.plain(7, 1000, 400);
        let batch = input.batch().expect("items lie inside");
        let right =
            |workload: &dyn Workload, i| format!("{:?}", workload.right(batch.item(i), 1 << 20));
        let outputs: HashSet<String> = (0..batch.len())
            .map(|i| {
                let output = right(&*asked, i);
                assert_eq!(right(&*written, i), output, "{}: {i}", set.name());
                output
            })
            .collect();
        assert!(outputs.len() > 10, "{}: {}", set.name(), outputs.len());
    }
}

/// Exactly the rules that software leaves out are left out here.
#[test]
fn the_rules_that_are_left_out_are_those_that_software_leaves_out() {
    let large = [
        "[a-z]{20000}",
        "(\\w\\W){9000}",
        "([a-f]{90}x){90}",
        "(a|b|c|d){8000}",
        "[aeiou]{12000,}",
    ];
    let file: String = ["a", "(?=b)", "c\\1", "d++", "[e", "f{2}", "(g"]
        .into_iter()
        .chain(large)
        .enumerate()
        .map(|(id, expression)| format!("{id}:/{expression}/\n"))
        .collect();
    let mut taken = 0;
    for line in file.lines() {
        let software = Rules::parse(line.as_bytes(), UnsupportedRules::Refuse);
        match (read(line), software) {
            (Ok(_), software) => {
                software.unwrap_or_else(|why| panic!("{line} is left out by software: {why}"));
                taken += 1;
            }
            (Err(why), Ok(_)) => assert!(why.contains("as large as this one"), "{line}: {why}"),
            (Err(_), Err(_)) => {}
        }
    }
    assert!(taken >= 2, "{taken}");
    let few = "1:/a/\n2:/(?=b)/\n3:/c/\n";
    let all = translated(few.as_bytes(), UnsupportedRules::Skip).expect("two of them");
    assert_eq!(all.text, b"1, /a/\n3, /c/\n");
    assert!(translated(b"1:/a/\n2:/b$/", UnsupportedRules::Skip).is_err());
}
