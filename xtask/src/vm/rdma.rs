//! RDMA in a guest: what goes in, what must come of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::guest;
use super::image::Image;
use super::kernel::{self, Kernel};
use crate::bench::programs::{self, Program};
use crate::shell;

/// Programs of this machine's that the guest has, and their packages.
const PROGRAMS: [(&str, &str); 8] = [
    ("ip", "iproute2"),
    ("rdma", "iproute2"),
    ("ib_read_lat", "perftest"),
    ("ib_read_bw", "perftest"),
    ("ib_write_lat", "perftest"),
    ("ib_write_bw", "perftest"),
    ("ib_send_lat", "perftest"),
    ("ib_send_bw", "perftest"),
];
/// What `dpb` loads by name.
const LIBRARIES: [(&str, &str); 2] = [
    ("libibverbs.so.1", "libibverbs1"),
    ("librdmacm.so.1", "librdmacm1"),
];
/// Soft-RoCE's part in user space; the number is libibverbs's own.
const PROVIDER: (&str, &str) = ("librxe-rdmav", "ibverbs-providers");
/// Which device is whose, as libibverbs reads it.
const DRIVERS: &str = "/etc/libibverbs.d/rxe.driver";
/// In this order. The first is not named by those that need it, and soft-RoCE fails without.
const MODULES: [&str; 12] = [
    "crc32_generic",
    "udp_tunnel",
    "ip6_udp_tunnel",
    "ib_core",
    "ib_uverbs",
    "rdma_rxe",
    "configfs",
    "ib_cm",
    "iw_cm",
    "rdma_cm",
    "rdma_ucm",
    "veth",
];
/// Tests that a device makes longer: the crate's folder, and their names.
const TESTS: [(&str, &str); 5] = [
    ("crates/accel", "rdma"),
    ("crates/accel", "rdma_bench"),
    ("crates/accel", "rdma_bulk"),
    ("crates/accel", "rdma_link"),
    ("crates/cli", "remote_rdma"),
];
/// Who serves and who measures, in this order; perftest alone first.
const PAIRS: [&str; 4] = [
    "perftest-perftest",
    "dpb-dpb",
    "perftest-dpb",
    "dpb-perftest",
];
/// Connected by librdmacm.
const CM: &str = "cm-dpb-dpb";
/// All of perftest's sizes, of sends alone: elsewhere sides do not wait for each other between sizes.
const SWEEPS: [&str; 2] = ["send-lat-sweep-perftest-dpb", "send-bw-sweep-dpb-perftest"];
/// Verbs of `dpb` that see the device.
const ALONE: [&str; 2] = ["doctor", "op"];
/// Runs of dpb on both sides, and of perftest beside.
const BESIDE: &str = "repeat-beside";
/// So many.
const BESIDE_RUNS: usize = 3;
/// The pushdown's runs, in their order, and how they end.
const PUSHDOWNS: [(&str, i32); 6] = [
    ("pushdown-tcp", 0),
    ("pushdown-rdma", 0),
    ("pushdown-paced", 0),
    ("pushdown-absent", 0),
    ("pushdown-unplugged", 1),
    ("pushdown-cut", 1),
];
/// Jobs of another machine whose bytes go by RDMA, and how they end.
const REMOTES: [(&str, i32); 2] = [("remote-op", 0), ("remote-unplugged", 1)];
/// Its scale factor.
const SF: &str = "0.01";
const VERBS: [&str; 3] = ["read", "write", "send"];
/// So long after the unplugging, whoever lost a link must have ended.
const UNPLUGGED_S_MAX: [(&str, u64); 4] = [
    ("unplugged", 60),
    ("remote-unplugged", 90),
    ("pushdown-unplugged", 90),
    // TCP gives a peer up that is silent for a minute.
    ("pushdown-cut", 150),
];
/// A step says nothing until it ends. The longest one took at most two minutes on an idle machine (2 vCPUs of an AMD EPYC); others are slower,
/// or have other work.
const SILENCE_MAX: Duration = Duration::from_secs(900);

/// What is missing here, and what to install.
pub(super) fn missing() -> Option<anyhow::Error> {
    if cfg!(not(target_arch = "x86_64")) {
        return Some(anyhow::anyhow!(
            "the guest is x86-64, and so must its programs be"
        ));
    }
    let programs = [
        (guest::QEMU, "qemu-system-x86"),
        ("busybox", "busybox-static"),
    ];
    let programs = programs.iter().chain(&PROGRAMS);
    let missing = programs.filter(|(name, _)| shell::find(name).is_none());
    let libraries = LIBRARIES.iter().filter(|(name, _)| library(name).is_none());
    let provider = [&PROVIDER].into_iter().filter(|_| provider().is_none());
    let missing: Vec<_> = missing.chain(libraries).chain(provider).collect();
    if missing.is_empty() {
        return None;
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Some(anyhow::anyhow!(
        "no {}: apt-get install {}",
        names.join(", "),
        packages.join(" ")
    ))
}

/// Builds, unless the whole workspace's tests have just been built; boots, judges.
pub(super) fn run(kernel: Kernel, all_is_built: bool) -> Result<()> {
    if let Some(missing) = missing() {
        return Err(missing);
    }
    let folder = shell::target_dir().join("vm/rdma");
    let image = image(&kernel, &folder, all_is_built)?;
    let results = guest::run(&kernel, &image, &folder, SILENCE_MAX)?;
    let results = Results::read(&results)?;
    let records = folder.join("records.jsonl");
    std::fs::write(&records, results.records())?;
    println!("{}", results.table());
    println!(
        "emulated: soft-RoCE under QEMU; right or wrong only, its times mean nothing. Records are in {}, the console in {}",
        records.display(),
        folder.join("console").display()
    );
    let console = std::fs::read(folder.join("console"))?;
    results.judge(&String::from_utf8_lossy(&console))
}

fn image(kernel: &Kernel, folder: &Path, all_is_built: bool) -> Result<Image> {
    let mut image = Image::default();
    for folder in ["proc", "sys", "dev", "run", "tmp", "bin"] {
        image.folder(folder);
    }
    image.file("init", include_bytes!("init.sh"));
    image.file("tests.sh", include_bytes!("rdma.sh"));
    let found = |name: &str| shell::find(name).with_context(|| format!("no {name}"));
    image.program(&found("busybox")?, "bin/busybox")?;
    for (name, _) in PROGRAMS {
        let folder = if name == "ip" { "usr/sbin" } else { "usr/bin" };
        image.program(&found(name)?, &format!("{folder}/{name}"))?;
    }
    for (name, _) in LIBRARIES {
        let path = library(name).with_context(|| format!("no {name}"))?;
        image.program(&path, &path.to_string_lossy())?;
    }
    let provider = provider().context("no provider")?;
    image.program(&provider, &provider.to_string_lossy())?;
    image.copy(Path::new(DRIVERS), DRIVERS)?;
    let mut order = String::new();
    for name in MODULES {
        // What is built into the kernel is no module.
        if let Some(module) = kernel.module(name) {
            image.file(&format!("modules/{name}.ko"), kernel::read_module(&module)?);
            order += &format!("{name}\n");
        }
    }
    image.file("modules/order", order);
    for (name, path) in built(all_is_built)? {
        if name == "dpb" {
            // Here, where it takes no time.
            let data = folder.join("data");
            shell::run(
                Command::new(&path)
                    .args([
                        "data", "--sf", SF, "--tables", "lineitem", "--format", "csv",
                    ])
                    .arg("--data-dir")
                    .arg(&data)
                    .stdout(Stdio::null()),
            )?;
            image.tree(&data, "data")?;
        }
        let folder = if name == "dpb" { "usr/bin" } else { "tests" };
        image.program(&path, &format!("{folder}/{name}"))?;
    }
    Ok(image)
}

/// `dpb` and the tests, by name. With `all_is_built` they are what `cargo test --workspace` has built: chosen apart, they would have
/// other features, and be built once more.
fn built(all_is_built: bool) -> Result<Vec<(String, PathBuf)>> {
    let mut cargo = shell::cargo();
    cargo.arg("test");
    match all_is_built {
        true => cargo.arg("--workspace"),
        false => cargo.args(["-p", "dpb-cli", "-p", "dpb-accel", "--bin", "dpb"]),
    };
    for (_, name) in TESTS.iter().filter(|_| !all_is_built) {
        cargo.args(["--test", name]);
    }
    let programs = programs::build(&mut cargo, &["bin", "test"])?;
    let is_one = |program: &Program| {
        let mut tests = TESTS.iter();
        program.name == "dpb"
            || tests.any(|(folder, name)| {
                program.name == *name && program.source.starts_with(shell::root().join(folder))
            })
    };
    Ok(programs
        .into_iter()
        .filter(is_one)
        .map(|program| (program.name, program.path))
        .collect())
}

/// A library where the distribution keeps it.
fn library(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.is_file())
}

fn provider() -> Option<PathBuf> {
    let folder = library(LIBRARIES[0].0)?.parent()?.join("libibverbs");
    let mut files = std::fs::read_dir(folder).ok()?.flatten();
    let is_it = |name: &str| name.starts_with(PROVIDER.0) && name.ends_with(".so");
    files.find_map(|file| is_it(&file.file_name().to_string_lossy()).then(|| file.path()))
}

/// What the guest said.
#[derive(Debug, Default)]
struct Results {
    /// How server and client ended.
    steps: BTreeMap<String, (i32, i32)>,
    /// perftest's columns, by step and side, whoever printed them.
    rows: BTreeMap<(String, String), Vec<f64>>,
    took_s: BTreeMap<String, u64>,
    /// dpb's own.
    records: Vec<Value>,
}

impl Results {
    fn read(text: &str) -> Result<Self> {
        let mut results = Self::default();
        let mut has_ended = false;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["step", name, server, client] => {
                    let ended = (server.parse()?, client.parse()?);
                    results.steps.insert(name.to_owned(), ended);
                }
                ["row", name, side, ref columns @ ..] => {
                    let columns: Result<_, _> = columns.iter().map(|word| word.parse()).collect();
                    let key = (name.to_owned(), side.to_owned());
                    results
                        .rows
                        .insert(key, columns.with_context(|| line.to_owned())?);
                }
                ["took", name, seconds] => {
                    results.took_s.insert(name.to_owned(), seconds.parse()?);
                }
                ["end"] => has_ended = true,
                [] => {}
                _ => results
                    .records
                    .push(serde_json::from_str(line).with_context(|| line.to_owned())?),
            }
        }
        ensure!(
            has_ended,
            "the guest did not get to its end: {:?}",
            results.steps
        );
        Ok(results)
    }

    /// dpb's records, and perftest's rows beside them, a line each.
    fn records(&self) -> String {
        let rows = self.rows.iter().map(|((step, side), columns)| {
            let evidence = json!({"kind": "emulated", "by": "soft-RoCE (rxe)"});
            json!({"task": "perftest columns", "step": step, "side": side, "columns": columns, "evidence": evidence})
        });
        let all = self.records.iter().cloned().chain(rows);
        all.map(|record| format!("{record}\n")).collect()
    }

    /// For each measurement what the client saw, whoever served and whoever measured.
    fn table(&self) -> String {
        let mut text = format!("{:<12}", "server-client");
        text += &PAIRS.map(|pair| format!("{pair:>20}")).concat();
        for (verb, method) in kinds() {
            let (unit, column) = match method {
                "lat" => ("us", 4),
                _ => ("MiB/s", 3),
            };
            text += &format!("\n{:<13}", format!("{verb} {method}"));
            for pair in PAIRS {
                let key = (format!("{verb}-{method}-{pair}"), "client".to_owned());
                let figure = self.rows.get(&key).and_then(|row| row.get(column));
                let figure = figure.map_or("-".into(), |figure| format!("{figure:.1} {unit}"));
                text += &format!("{figure:>20}");
            }
        }
        text
    }

    /// Whether all is as it must be. An error has the end of what each step that went wrong said on the `console`.
    fn judge(&self, console: &str) -> Result<()> {
        let wrong = [
            self.wrong_ends(),
            self.wrong_figures(),
            self.wrong_records(),
            self.wrong_pushdowns(),
        ]
        .concat();
        if wrong.is_empty() {
            return Ok(());
        }
        let steps: BTreeSet<&str> = wrong
            .iter()
            .filter_map(|what| Some(what.split_once(": ")?.0))
            .collect();
        let said = steps.into_iter().map(|step| {
            let is_its = |line: &&str| {
                let rest = line.strip_prefix(step);
                rest.is_some_and(|rest| rest.starts_with([' ', ':']))
            };
            let lines: Vec<&str> = console.lines().filter(is_its).collect();
            guest::last_lines(lines.join("\n").as_bytes())
        });
        let said: Vec<String> = said.collect();
        bail!("{}\n{}", wrong.join("\n"), said.join("\n"))
    }

    /// Steps that did not run, or ended otherwise than they must.
    fn wrong_ends(&self) -> Vec<String> {
        let pairs = pairs().map(|name| (name, (0, 0)));
        let tests = TESTS.iter().map(|(_, name)| name);
        let alone = tests.chain(&ALONE);
        let alone = alone.map(|name| ((*name).to_owned(), (0, 0)));
        let unplugged = [
            (BESIDE.to_owned(), (0, 0)),
            ("unplugged".to_owned(), (1, 1)),
        ];
        let pushdowns = PUSHDOWNS.iter().chain(&REMOTES);
        let pushdowns = pushdowns.map(|(name, code)| ((*name).to_owned(), (0, *code)));
        let expected = pairs.chain(alone).chain(unplugged).chain(pushdowns);
        expected
            .filter_map(|(name, ended)| match self.steps.get(&name) {
                Some(&seen) if seen == ended => None,
                Some(seen) => Some(format!(
                    "{name}: server and client ended with {seen:?}, not {ended:?}"
                )),
                None => Some(format!("{name}: did not run")),
            })
            .collect()
    }

    /// Measurements without a row, and sides that waited too long for a link that was gone.
    fn wrong_figures(&self) -> Vec<String> {
        let has_row = |name: &String| self.rows.contains_key(&(name.clone(), "client".to_owned()));
        let missing = pairs().filter(|name| !has_row(name));
        let mut wrong: Vec<String> = missing
            .map(|name| format!("{name}: the client has no figures"))
            .collect();
        for (name, seconds_max) in UNPLUGGED_S_MAX {
            match self.took_s.get(name) {
                Some(&seconds) if seconds <= seconds_max => {}
                took => wrong.push(format!("{name}: took {took:?} seconds")),
            }
        }
        wrong
    }

    /// Both failures are records, the backend has some, and all are marked.
    fn wrong_records(&self) -> Vec<String> {
        let count = |is_it: &dyn Fn(&Value) -> bool| {
            self.records.iter().filter(|record| is_it(record)).count()
        };
        let failed =
            count(&|record| record["task"] == "rdma" && record["outcome"]["status"] == "failed");
        let copied = count(&|record| record["parameters"]["backend"] == "rdma/rxe0");
        let is_beside = |record: &Value, tool: &str| {
            let values = &record["samples"]["bytes_per_s"]["values"];
            // perftest prints no number for a run in which its sampling of the CPU's clock was disturbed.
            let runs_min = if tool == "dpb" { BESIDE_RUNS } else { 1 };
            record["parameters"]["tool"] == tool
                && record["parameters"]["role"] == "client"
                && values
                    .as_array()
                    .is_some_and(|runs| (runs_min..=BESIDE_RUNS).contains(&runs.len()))
        };
        let beside = ["dpb", "perftest"].map(|tool| count(&|record| is_beside(record, tool)));
        let is_remote = |record: &Value| {
            let backend = record["parameters"]["backend"].as_str();
            backend.is_some_and(|backend| backend.starts_with("remote-rdma/"))
        };
        let by = |record: &Value| record["evidence"]["by"].as_str().map(str::to_owned);
        let is_by_rxe = |record: &Value| by(record).is_some_and(|by| by.contains("soft-RoCE"));
        let ended = |status: &str| {
            count(&|record| is_remote(record) && record["outcome"]["status"] == status)
        };
        let unmarked = count(&|record| record["evidence"]["kind"] != "emulated");
        let wrong = [
            (
                failed != 2,
                "unplugged: not one record of the failure from each side",
            ),
            (copied == 0, "op: no record of rdma/rxe0"),
            (
                beside != [1, 1],
                "repeat-beside: not one record of each tool, dpb's with a value of each run and perftest's with one at least",
            ),
            (ended("done") == 0, "remote-op: no record"),
            (ended("failed") == 0, "remote-unplugged: no failure"),
            (
                count(&|record| is_remote(record) && !is_by_rxe(record)) > 0,
                "remote-op: a record that is not marked emulated by soft-RoCE",
            ),
            (unmarked > 0, "a record that is not marked emulated"),
        ];
        let wrong = wrong.iter().filter(|(is_wrong, _)| *is_wrong);
        wrong.map(|(_, what)| (*what).to_owned()).collect()
    }

    /// The pushdown's rows are the same by RDMA and over TCP; each record says which way they came, and why not by RDMA.
    fn wrong_pushdowns(&self) -> Vec<String> {
        let records = self.records.iter();
        let records: Vec<&Value> = records
            .filter(|record| record["task"] == "pushdown")
            .collect();
        let &[tcp, rdma, paced, absent, unplugged, cut] = &records[..] else {
            return vec![format!("pushdown: {} records, not 6", records.len())];
        };
        let came = |record: &Value, way: &str, why: Option<&str>| {
            let parameters = &record["parameters"];
            let fallback = parameters["bulk_fallback"].as_str();
            parameters["bulk"] == way
                && match (fallback, why) {
                    (Some(fallback), Some(why)) => fallback.contains(why),
                    (None, None) => true,
                    _ => false,
                }
        };
        let placed = |record: &Value| record["counts"]["bulk_bytes_from_agent"].as_u64() > Some(0);
        let has_failed = |record: &Value| record["outcome"]["status"] == "failed";
        let digest = |record: &Value| record["check"]["digest"].as_str().map(str::to_owned);
        let by = |record: &Value| record["evidence"]["by"].as_str().map(str::to_owned);
        let rxe = "rdma/rxe0";
        let right = [
            (came(tcp, "tcp", None) && !placed(tcp), "tcp: not over TCP"),
            (came(rdma, rxe, None) && placed(rdma), "rdma: not by RDMA"),
            (
                by(rdma).is_some_and(|by| by.contains("soft-RoCE")),
                "rdma: not marked emulated by soft-RoCE",
            ),
            (
                digest(tcp).is_some() && digest(tcp) == digest(rdma),
                "rdma: other rows than over TCP",
            ),
            (came(paced, "tcp", Some("pace")), "paced: no reason"),
            (came(absent, "tcp", Some("no-such")), "absent: no reason"),
            (
                came(unplugged, rxe, None) && has_failed(unplugged),
                "unplugged: no failure",
            ),
            (came(cut, rxe, None) && has_failed(cut), "cut: no failure"),
        ];
        let wrong = right.iter().filter(|(is_right, _)| !is_right);
        wrong.map(|(_, what)| format!("pushdown-{what}")).collect()
    }
}

/// Names of all measurements.
fn pairs() -> impl Iterator<Item = String> {
    let kinds = kinds().flat_map(|(verb, method)| {
        let pairs = PAIRS.into_iter().chain([CM]);
        pairs.map(move |pair| format!("{verb}-{method}-{pair}"))
    });
    kinds.chain(SWEEPS.map(str::to_owned))
}

fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    let methods = ["lat", "bw"];
    VERBS
        .into_iter()
        .flat_map(move |verb| methods.map(|method| (verb, method)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything as it must be, in the guest's words.
    fn good() -> String {
        let mut text = String::new();
        for name in pairs() {
            text += &format!("step {name} 0 0\nrow {name} client  2 50 1.0 2.0 1.5 1.6\n");
        }
        for name in TESTS.iter().map(|(_, name)| name).chain(&ALONE) {
            text += &format!("step {name} 0 0\n");
        }
        text += r#"{"parameters":{"backend":"rdma/rxe0"},"evidence":{"kind":"emulated"}}"#;
        text += "\n";
        let failed =
            r#"{"task":"rdma","outcome":{"status":"failed"},"evidence":{"kind":"emulated"}}"#;
        text += &format!("{failed}\n{failed}\nstep unplugged 1 1\n");
        text += &format!("step {BESIDE} 0 0\n");
        for tool in ["dpb", "perftest"] {
            let (name, role) = (format!(r#""tool":"{tool}""#), r#""role":"client""#);
            let runs = r#""samples":{"bytes_per_s":{"values":[1.0,2.0,3.0]}}"#;
            let kind = r#""evidence":{"kind":"emulated"}"#;
            text += &format!("{{\"parameters\":{{{name},{role}}},{runs},{kind}}}\n");
        }
        for status in ["done", "failed"] {
            text += &format!(
                "{{\"task\":\"op\",\"parameters\":{{\"backend\":\"remote-rdma/h:1/cpu\"}},\"outcome\":{{\"status\":\"{status}\"}},"
            );
            text += "\"evidence\":{\"kind\":\"emulated\",\"by\":\"soft-RoCE (rxe)\"}}\n";
        }
        for (name, code) in PUSHDOWNS.iter().chain(&REMOTES) {
            text += &format!("step {name} 0 {code}\n");
        }
        for (name, _) in UNPLUGGED_S_MAX {
            text += &format!("took {name} 9\n");
        }
        for pushdown in [
            r#""parameters":{"bulk":"tcp"},"check":{"digest":"d1"},"counts":{"bulk_bytes_from_agent":0}"#,
            r#""parameters":{"bulk":"rdma/rxe0"},"check":{"digest":"d1"},"counts":{"bulk_bytes_from_agent":7}"#,
            r#""parameters":{"bulk":"tcp","bulk_fallback":"it has a pace"}"#,
            r#""parameters":{"bulk":"tcp","bulk_fallback":"no RDMA device `no-such`"}"#,
            r#""parameters":{"bulk":"rdma/rxe0"},"outcome":{"status":"failed"}"#,
            r#""parameters":{"bulk":"rdma/rxe0"},"outcome":{"status":"failed"}"#,
        ] {
            let evidence = r#""evidence":{"kind":"emulated","by":"soft-RoCE (rxe)"}"#;
            text += &format!("{{\"task\":\"pushdown\",{pushdown},{evidence}}}\n");
        }
        text + "end\n"
    }

    #[test]
    fn what_the_guest_says_is_judged() {
        let results = Results::read(&good()).expect("readable");
        results.judge("").expect("all as it must be");
        assert!(results.table().contains("1.5 us"));
        let records = 1 + 2 + 2 + 2 + PUSHDOWNS.len() + pairs().count();
        assert_eq!(results.records().lines().count(), records);
        for (right, wrong) in [
            ("step read-lat-dpb-dpb 0 0", "step read-lat-dpb-dpb 0 1"),
            ("step rdma_link 0 0\n", ""),
            ("step unplugged 1 1", "step unplugged 0 1"),
            ("took unplugged 9", "took unplugged 99"),
            (
                "row send-bw-dpb-perftest client",
                "row send-bw-dpb-perftest server",
            ),
            ("step doctor 0 0", "step doctor 0 1"),
            ("step repeat-beside 0 0", "step repeat-beside 0 1"),
            ("[1.0,2.0,3.0]", "[1.0,2.0]"),
            ("\"tool\":\"perftest\"", "\"tool\":\"dpb\""),
            ("rdma/rxe0", "cpu/best"),
            ("\"emulated\"", "\"measured\""),
            ("\"failed\"", "\"done\""),
            ("step pushdown-cut 0 1", "step pushdown-cut 0 0"),
            ("step remote_rdma 0 0\n", ""),
            ("step remote-unplugged 0 1", "step remote-unplugged 0 0"),
            ("took remote-unplugged 9", "took remote-unplugged 99"),
            ("\"remote-rdma/h:1/cpu\"", "\"remote/h:1/cpu\""),
            ("took pushdown-cut 9", "took pushdown-cut 900"),
            (
                "\"digest\":\"d1\"},\"counts\":{\"bulk_bytes_from_agent\":7",
                "\"digest\":\"d2\"},\"counts\":{\"bulk_bytes_from_agent\":7",
            ),
            ("\"bulk_bytes_from_agent\":7", "\"bulk_bytes_from_agent\":0"),
            ("it has a pace", "it has none"),
            (",\"bulk_fallback\":\"no RDMA device `no-such`\"", ""),
            ("soft-RoCE", "something"),
        ] {
            assert!(good().contains(right), "{right}");
            let results = Results::read(&good().replace(right, wrong)).expect("readable");
            assert!(results.judge("").is_err(), "{wrong}");
        }
        assert!(Results::read(&good().replace("end\n", "")).is_err());
        let failed = good().replace("step doctor 0 0", "step doctor 0 3");
        let failed = Results::read(&failed).expect("readable");
        let why = failed.judge("op: fine\ndoctor: no device\ndoctors: many\n");
        let why = why.expect_err("doctor failed").to_string();
        assert!(why.ends_with("not (0, 0)\ndoctor: no device"), "{why}");
        // perftest's runs come last.
        let good = good();
        let (before, after) = good.rsplit_once("[1.0,2.0,3.0]").expect("perftest's");
        for (values, is_good) in [("[1.0,2.0]", true), ("[]", false)] {
            let results = Results::read(&format!("{before}{values}{after}")).expect("readable");
            assert_eq!(results.judge("").is_ok(), is_good, "{values}");
        }
    }
}
