//! Which of our crates may depend on which: core ← {operators, accel, sim, link, micro, net} ← cli;
//! core ← link ← dbmods ← cli; core ← sim ← insight ← cli;
//! core ← {operators, accel} ← peers ← benches; {operators, accel, sim, cli} ← examples; xtask alone. And how many crates a
//! prototype builds that wants an operator.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell;

/// For each crate, the crates of ours that it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("dpb-core", &[]),
    ("dpb-operators", &["dpb-core"]),
    ("dpb-accel", &["dpb-core"]),
    ("dpb-sim", &["dpb-core"]),
    ("dpb-insight", &["dpb-core", "dpb-sim"]),
    ("dpb-link", &["dpb-core"]),
    ("dpb-dbmods", &["dpb-core", "dpb-link"]),
    ("dpb-micro", &["dpb-core"]),
    ("dpb-net", &["dpb-core"]),
    (
        "dpb-cli",
        &[
            "dpb-core",
            "dpb-operators",
            "dpb-accel",
            "dpb-sim",
            "dpb-insight",
            "dpb-link",
            "dpb-dbmods",
            "dpb-micro",
            "dpb-net",
        ],
    ),
    (
        "dpb-peers",
        &["dpb-core", "dpb-operators", "dpb-accel", "dpb-net"],
    ),
    ("prototype", &["dpb-core", "dpb-operators", "dpb-cli"]),
    (
        "inspect",
        &[
            "dpb-core",
            "dpb-operators",
            "dpb-accel",
            "dpb-sim",
            "dpb-net",
        ],
    ),
    (
        "stages",
        &["dpb-core", "dpb-operators", "dpb-accel", "dpb-sim"],
    ),
    (
        "dpb-benches",
        &[
            "dpb-peers",
            "dpb-core",
            "dpb-operators",
            "dpb-accel",
            "dpb-sim",
            "dpb-link",
            "dpb-dbmods",
            "dpb-micro",
            "dpb-net",
        ],
    ),
    ("xtask", &[]),
];

/// What tests of a middle crate may use besides: kernels, models and ports.
const FOR_TESTS: &[&str] = &["dpb-core", "dpb-operators", "dpb-sim", "dpb-net"];

/// One dependency between crates of the workspace, or of core on anything.
#[derive(Clone, Debug)]
struct Dependency {
    on: String,
    for_tests: bool,
    optional: bool,
}

/// What is wrong with the workspace's arrows.
pub(super) fn check() -> Result<Vec<String>> {
    let metadata = ["metadata", "--no-deps", "--format-version", "1"];
    let metadata = shell::output(shell::cargo().args(metadata))?;
    let mut wrong = judge(&read(&metadata)?);
    let tree = [
        "tree",
        "-p",
        "dpb-operators",
        "-e",
        "normal",
        "--prefix",
        "none",
    ];
    wrong.extend(judge_weight(&shell::output(shell::cargo().args(tree))?));
    Ok(wrong)
}

/// Most crates that `dpb-operators` builds with its default features, itself and core included.
const LIGHT_CRATES_MAX: usize = 10;

/// What is wrong with what `cargo tree` lists, a crate a line.
fn judge_weight(tree: &str) -> Option<String> {
    let crates: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    (crates.len() > LIGHT_CRATES_MAX).then(|| {
        format!(
            "dpb-operators: {} crates by default, {LIGHT_CRATES_MAX} are allowed: {crates:?}",
            crates.len()
        )
    })
}

fn judge(crates: &BTreeMap<String, Vec<Dependency>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, dependencies) in crates {
        let Some((_, may)) = ARROWS.iter().find(|(known, _)| known == name) else {
            wrong.push(format!(
                "{name}: has no place among the arrows of xtask/src/tidy/arrows.rs"
            ));
            continue;
        };
        for dependency in dependencies {
            let on = dependency.on.as_str();
            let in_tests = dependency.for_tests && *name != "dpb-core" && *name != "xtask";
            let ours = crates.contains_key(on);
            // Tests may have their own crate with more features.
            let for_tests = in_tests && (FOR_TESTS.contains(&on) || on == name);
            if ours && !may.contains(&on) && !for_tests {
                wrong.push(format!("{name}: must not depend on {on}"));
            }
            if name == "dpb-core" && !dependency.for_tests && !dependency.optional {
                wrong.push(format!(
                    "dpb-core: is the standard library alone, but needs {on}"
                ));
            }
        }
    }
    wrong
}

fn read(metadata: &str) -> Result<BTreeMap<String, Vec<Dependency>>> {
    let metadata: Value = serde_json::from_str(metadata)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    packages
        .iter()
        .map(|package| {
            let name = package["name"].as_str().context("no name")?;
            let dependencies = package["dependencies"]
                .as_array()
                .context("no dependencies")?;
            let dependencies = dependencies
                .iter()
                .map(|dependency| {
                    Ok(Dependency {
                        on: dependency["name"].as_str().context("no name")?.to_string(),
                        for_tests: dependency["kind"] == "dev",
                        optional: dependency["optional"] == true,
                    })
                })
                .collect::<Result<_>>()?;
            Ok((name.to_string(), dependencies))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(name: &str, on: &str, for_tests: bool) -> usize {
        let mut crates: BTreeMap<_, _> = ARROWS
            .iter()
            .map(|(name, _)| (name.to_string(), Vec::new()))
            .collect();
        crates
            .entry(name.to_string())
            .or_default()
            .push(Dependency {
                on: on.to_string(),
                for_tests,
                optional: false,
            });
        judge(&crates).len()
    }

    #[test]
    fn the_arrows_point_one_way() {
        assert_eq!(check().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_crate_too_many_is_seen() {
        let tree =
            |crates: usize| -> String { (0..crates).map(|i| format!("c{i} v1\n")).collect() };
        assert_eq!(judge_weight(&(tree(10) + "c0 v1 (*)\n")), None);
        assert!(judge_weight(&tree(11)).is_some());
    }

    #[test]
    fn arrows_that_point_the_other_way_are_seen() {
        assert_eq!(wrong("dpb-cli", "dpb-sim", false), 0);
        assert_eq!(wrong("dpb-sim", "dpb-operators", true), 0);
        assert_eq!(wrong("dpb-sim", "dpb-operators", false), 1);
        assert_eq!(wrong("dpb-net", "dpb-dbmods", false), 1);
        assert_eq!(wrong("dpb-link", "dpb-dbmods", false), 1);
        assert_eq!(wrong("dpb-core", "dpb-sim", true), 1);
        assert_eq!(wrong("xtask", "dpb-core", false), 1);
        assert_eq!(wrong("dpb-core", "libc", false), 1);
        assert_eq!(wrong("dpb-core", "libc", true), 0);
        assert_eq!(wrong("newcomer", "dpb-core", false), 1);
    }
}
