//! `dpb run --on`: a box on this machine and on others, as processes on loopback; agents that go away, refuse, or are started by ssh.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use dpb_core::measure::{Outcome, Reading, Record, Value};
use support::{DPB, children, listening, runs, text, wait_until};
use tempfile::TempDir;

/// How long something may take that takes a moment.
const PATIENCE: Duration = Duration::from_secs(120);

const TINY: &str = r#"{ "name": "tiny", "repeats": 2, "seed": 5, "tasks": [
    { "task": "op", "parameters": { "operator": "crc32c", "size": 64, "backend": "cpu/best", "seconds": "10ms", "warm_up": "1ms" } },
    { "task": "tcp", "parameters": { "size": 64, "depth": 1, "seconds": "10ms", "warm_up": "1ms" } } ] }"#;

/// Tests that take a while.
const SLOW: &str = r#"{ "name": "slow", "repeats": 2, "tasks": [
    { "task": "op", "parameters": { "operator": "crc32c", "size": [64, 256], "backend": "cpu/best", "seconds": "3s" } } ] }"#;

/// A machine: folders of its own for data and temporary files.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().expect("a folder"));
        for folder in ["data", "tmp", "bin"] {
            fs::create_dir(place.at(folder)).expect("a folder");
        }
        let token = "0123456789abcdef0123456789abcdef\n";
        place.write("token", token, 0o600);
        place.write("wrong", "another token of good length\n", 0o600);
        place.write("tiny.json", TINY, 0o644);
        place.write("slow.json", SLOW, 0o644);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &str, mode: u32) {
        fs::write(self.at(name), content).expect("written");
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(mode)).expect("set");
    }

    fn dpb(&self, words: &[&str]) -> Command {
        let mut command = Command::new(DPB);
        command
            .current_dir(self.0.path())
            .args(words)
            .env("DPB_DATA_DIR", self.at("data"))
            .env("TMPDIR", self.at("tmp"))
            .stdin(Stdio::null());
        command
    }

    /// `dpb run` of a box on this machine and on the agent's; `token` is that of [`Agent::of_tasks`].
    fn run_on(&self, asked: &str, agent: &Agent, out: &str) -> Command {
        let mut command = self.dpb(&["run", asked, "--token-file", "token", "--out", out]);
        command.arg(agent.on());
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.dpb(words).output().expect("dpb runs")
    }

    fn temporary(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at("tmp")).expect("a folder").flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    fn records(&self, folder: &str) -> Vec<Record> {
        let reading = Reading::of_file(&self.at(folder).join("records.jsonl")).expect("records");
        assert_eq!(reading.damaged, []);
        let records = reading.records.into_iter();
        records.map(|line| line.record).collect()
    }
}

/// An agent of a test; killed with it.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start(place: &Place, words: &[&str]) -> Self {
        let mut serve = place.dpb(&["--format", "json", "serve", "--listen", "127.0.0.1:0"]);
        let (child, address) = listening(serve.args(words));
        Self { child, address }
    }

    /// One that runs tests for those who have the token.
    fn of_tasks(place: &Place) -> Self {
        Self::start(place, &["--tasks", "--token-file", "token"])
    }

    fn on(&self) -> String {
        format!("--on=dpu={}", self.address)
    }

    fn children(&self) -> Vec<u32> {
        children(self.child.id())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn done(records: &[Record]) {
    for record in records {
        assert_eq!(record.outcome, Outcome::Done, "{record:?}");
        assert!(!record.summary.is_empty());
    }
}

/// Task, host and the server's end of each record.
fn sites(records: &[Record]) -> Vec<(String, bool, String)> {
    let site = |record: &Record| {
        let server = record.parameters.get("server");
        (
            record.task.clone(),
            record.provenance.host == "dpu",
            server.map(ToString::to_string).unwrap_or_default(),
        )
    };
    records.iter().map(site).collect()
}

#[test]
fn a_box_runs_on_both_machines_and_between_them() {
    let (here, there) = (Place::new(), Place::new());
    let agent = Agent::of_tasks(&there);
    let dry = here
        .run_on("tiny.json", &agent, "out")
        .args(["--dry-run", "--format", "table"])
        .output()
        .expect("dpb runs");
    let table = text(&dry.stdout);
    assert!(dry.status.success(), "{}", text(&dry.stderr));
    for said in ["this one", "dpu", "this one to dpu"] {
        assert!(table.contains(said), "{table}");
    }
    assert!(!here.at("out").exists(), "a dry run makes nothing");
    let run = || here.run_on("tiny.json", &agent, "out").output();
    let ran = run().expect("dpb runs");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let records = here.records("out");
    done(&records);
    let site = |task: &str, is_there, server: &str| (task.to_owned(), is_there, server.to_owned());
    assert_eq!(
        sites(&records),
        [
            site("op", false, ""),
            site("op", true, ""),
            site("tcp", false, "loopback"),
            site("tcp", true, "loopback"),
            site("tcp", false, "dpu"),
        ]
    );
    for record in &records {
        assert_eq!(record.provenance.run, records[0].provenance.run);
        assert_eq!(record.provenance.seed, 5);
        let first = record.samples.values().find(|s| !s.values.is_empty());
        assert_eq!(first.expect("samples").values.len(), 2);
    }
    assert!(records[1].provenance.libraries.contains_key("agent dpu"));
    assert!(here.at("out/report.html").exists());
    assert_eq!(there.temporary(), [""; 0], "its tests leave nothing");
    assert_eq!(here.temporary(), [""; 0]);
    let again = run().expect("dpb runs");
    assert_eq!(again.status.code(), Some(2), "{}", text(&again.stderr));
    // Only there, in another order, as many runs as fit.
    let ran = here
        .dpb(&[
            "run",
            "tiny.json",
            &agent.on(),
            "--token-file",
            "dpu=token",
            "--out",
            "only",
        ])
        .args([
            "--without-this-machine",
            "--shuffle",
            "--time-budget",
            "1ms",
        ])
        .args(["--filter", "task=op"])
        .output()
        .expect("dpb runs");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let only = here.records("only");
    assert_eq!(sites(&only), [site("op", true, "")]);
    assert_eq!(only[0].samples["items_per_s"].values.len(), 3, "the fewest");
}

#[test]
fn a_table_is_scanned_on_both_machines_and_across_an_encrypted_wire() {
    let (here, there) = (Place::new(), Place::new());
    let made = there.output(&["serve", "init", "credentials"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let agent = Agent::start(&there, &["--tasks", "--credentials", "credentials"]);
    let client = there.at("credentials/client.credentials");
    let client = client.to_str().expect("a path");
    let asked = r#"{ "repeats": 1, "tasks": [ { "task": "pushdown",
        "parameters": { "sf": 0.01, "schemes": "dpb", "threads": 1, "selectivity": 0.1 } } ] }"#;
    here.write("scan.json", asked, 0o644);
    let on = agent.on();
    let ran = here.output(&[
        "run",
        "scan.json",
        &on,
        "--credentials",
        client,
        "--out",
        "out",
    ]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let records = here.records("out");
    done(&records);
    let servers: Vec<String> = sites(&records).into_iter().map(|site| site.2).collect();
    assert_eq!(servers, ["loopback", "loopback", "dpu"]);
    let checks: BTreeSet<String> = records
        .iter()
        .map(|record| format!("{:?}", record.check.as_ref().expect("checked").digest))
        .collect();
    assert_eq!(checks.len(), 1, "all found the same rows: {checks:?}");
    assert!(there.at("data/tpch").exists(), "it has data of its own");
    assert_eq!(here.temporary(), [""; 0]);
}

#[test]
fn an_agent_that_dies_fails_its_test_and_another_one_goes_on() {
    let (here, there) = (Place::new(), Place::new());
    let mut agent = Agent::of_tasks(&there);
    let only = "--without-this-machine";
    let mut run = here
        .run_on("slow.json", &agent, "out")
        .arg(only)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("dpb runs");
    assert!(
        wait_until(PATIENCE, || !agent.children().is_empty()),
        "no test"
    );
    let tests = agent.children();
    agent.child.kill().expect("killed");
    agent.child.wait().expect("reaped");
    let is_ended = wait_until(PATIENCE, || !runs(run.id()));
    assert!(is_ended, "the run waits for an agent that is dead");
    assert_eq!(run.wait().expect("ended").code(), Some(3));
    let died = wait_until(PATIENCE, || tests.iter().all(|&test| !runs(test)));
    assert!(died, "its tests die with it");
    let records = here.records("out");
    let [
        Record {
            outcome: Outcome::Failed { reason },
            provenance,
            ..
        },
    ] = &records[..]
    else {
        panic!("one failure: {records:?}");
    };
    assert!(reason.contains("the agent at"), "{reason}");
    assert_eq!(provenance.host, "dpu");
    // Another agent, under the same name, has the rest.
    let agent = Agent::of_tasks(&there);
    let ran = here
        .run_on("slow.json", &agent, "out")
        .arg(only)
        .output()
        .expect("dpb runs");
    assert_eq!(ran.status.code(), Some(1), "one test has failed");
    let records = here.records("out");
    assert_eq!(records.len(), 2);
    done(&records[1..]);
    assert_eq!(records[1].parameters["size"], Value::Int(256));
}

#[test]
fn a_client_that_leaves_leaves_no_process() {
    let (here, there) = (Place::new(), Place::new());
    let agent = Agent::of_tasks(&there);
    let mut run = here
        .run_on("slow.json", &agent, "out")
        .arg("--without-this-machine")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("dpb runs");
    assert!(
        wait_until(PATIENCE, || !agent.children().is_empty()),
        "no test"
    );
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signalled");
    assert_eq!(run.wait().expect("ended").code(), Some(130));
    let is_left = wait_until(PATIENCE, || agent.children().is_empty());
    assert!(is_left, "its test goes on: {:?}", agent.children());
    assert!(wait_until(PATIENCE, || there.temporary().is_empty()));
    // What was interrupted is no result.
    assert_eq!(
        fs::read_dir(here.at("out/tests")).expect("there").count(),
        0
    );
}

#[test]
fn one_test_runs_at_a_time() {
    let (here, there) = (Place::new(), Place::new());
    let agent = Agent::of_tasks(&there);
    let (most, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(agent.children().len(), Ordering::Relaxed);
            }
        });
        let clients = ["one", "two"].map(|out| {
            let mut client = here.run_on("tiny.json", &agent, out);
            client.arg("--without-this-machine");
            scope.spawn(move || client.output().expect("dpb runs"))
        });
        let clients = clients.map(thread::ScopedJoinHandle::join);
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            let ran = client.expect("it was waited for");
            assert!(ran.status.success(), "{}", text(&ran.stderr));
        }
    });
    assert_eq!(most.load(Ordering::Relaxed), 1);
}

/// A plug-in that answers.
fn plugin(place: &Place) {
    let own = place.at("plugins/answers");
    fs::create_dir_all(&own).expect("a folder");
    let manifest = r#"{ "name": "answers", "summary": "a test", "time_limit": "20s",
        "metrics": [ { "name": "answers_per_s", "meaning": "answers per second" } ] }"#;
    fs::write(own.join("plugin.json"), manifest).expect("written");
    let run =
        "#!/bin/sh\n[ -z \"$DPB_TOKEN_FILE\" ] && echo '{\"samples\":{\"answers_per_s\":[42]}}'\n";
    place.write("plugins/answers/run", run, 0o755);
}

/// The reason why a record has no numbers.
fn reason(record: &Record) -> &str {
    match &record.outcome {
        Outcome::Unsupported { reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_test_that_an_agent_does_not_take_is_a_record_and_the_rest_runs() {
    let (here, there) = (Place::new(), Place::new());
    plugin(&here);
    plugin(&there);
    let limits = "--tasks-memory=1GiB --tasks-time=1000h --tasks-disk=1000000GiB";
    let words = ["--tasks", "--token-file", "token"].into_iter();
    let words: Vec<&str> = words.chain(limits.split(' ')).collect();
    let agent = Agent::start(&there, &words);
    here.write(
        "input",
        "some bytes to cut items from, sixty-four of them, and a few more bytes",
        0o644,
    );
    let refused = [
        (
            "op",
            r#"{ "operator": "crc32c", "size": 8, "input": "input" }"#,
            "names a file or a device",
        ),
        ("answers", "{}", "no task or plug-in `answers`"),
        ("memory", r#"{ "size": "2GiB" }"#, "of memory, more than"),
        ("storage", r#"{ "file_size": "500000GiB" }"#, "B are free"),
        (
            "op",
            r#"{ "operator": "crc32c", "seconds": "2000h" }"#,
            "of a client's test",
        ),
    ];
    let taken = r#"{ "task": "op", "parameters": { "operator": "crc32c", "size": 64, "backend": "cpu/best", "seconds": "10ms" } }"#;
    let tests = refused.map(|(task, parameters, _)| {
        format!(r#"{{ "task": "{task}", "parameters": {parameters} }}"#)
    });
    let tests = tests.join(",");
    here.write(
        "asked.json",
        &format!(r#"{{ "repeats": 1, "tasks": [ {tests}, {taken} ] }}"#),
        0o644,
    );
    let run = |more: &[&str]| {
        let mut run = here.run_on("asked.json", &agent, "out");
        run.args(["--plugins", "plugins", "--without-this-machine"])
            .args(more);
        let ran = run.output().expect("dpb runs");
        let err = text(&ran.stderr);
        assert!(ran.status.success(), "{err}");
        // Before anything runs.
        for (_, _, said) in refused {
            assert!(err.contains(said), "{err}\nnot: {said}");
        }
    };
    run(&["--dry-run"]);
    assert!(!here.at("out").exists(), "nothing ran");
    run(&[]);
    let records = here.records("out");
    assert_eq!(records.len(), refused.len() + 1);
    for ((task, _, said), record) in refused.iter().zip(&records) {
        let why = reason(record);
        assert!(why.contains(said), "{why}\nnot: {said}");
        assert!(
            !why.contains("127.0.0.1"),
            "the host is the record's: {why}"
        );
        assert_eq!((&*record.task, &*record.provenance.host), (*task, "dpu"));
    }
    done(&records[refused.len()..]);
    // With nothing that it takes there is no result.
    here.write(
        "asked.json",
        &format!(r#"{{ "tasks": [ {tests} ] }}"#),
        0o644,
    );
    let mut none = here.run_on("asked.json", &agent, "none");
    none.args(["--plugins", "plugins", "--without-this-machine"]);
    assert_eq!(none.output().expect("dpb runs").status.code(), Some(3));
}

#[test]
fn an_agent_runs_the_plug_ins_that_it_was_given() {
    let (here, there) = (Place::new(), Place::new());
    plugin(&here);
    plugin(&there);
    let words = ["--tasks", "--token-file", "token", "--plugins", "plugins"];
    let agent = Agent::start(&there, &words);
    here.write(
        "asked.json",
        r#"{ "repeats": 1, "tasks": [ { "task": "answers" } ] }"#,
        0o644,
    );
    let ran = here
        .run_on("asked.json", &agent, "out")
        .args(["--plugins", "plugins"])
        .output()
        .expect("dpb runs");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let records = here.records("out");
    done(&records);
    assert_eq!(sites(&records).len(), 2);
    assert!(records[1].provenance.host == "dpu" && records[1].task == "answers");
}

#[test]
fn who_has_no_token_runs_nothing() {
    let (here, there) = (Place::new(), Place::new());
    let open = there.output(&["serve", "--listen", "127.0.0.1:0", "--tasks"]);
    assert_eq!(open.status.code(), Some(2));
    assert!(
        text(&open.stderr).contains("must show a token"),
        "{}",
        text(&open.stderr)
    );
    let agent = Agent::of_tasks(&there);
    let without = Agent::start(&there, &["--token-file", "token"]);
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let gone = nobody.local_addr().expect("its address").to_string();
    drop(nobody);
    let (to_agent, to_other) = (agent.on(), without.on());
    let to_gone = format!("--on=dpu={gone}");
    for (on, more, code, said) in [
        (
            &to_agent,
            &["--token-file", "wrong"][..],
            2,
            "the token is wrong or missing",
        ),
        (&to_agent, &[], 2, "the token is wrong or missing"),
        (
            &to_other,
            &["--token-file", "token"],
            3,
            "dpb serve --tasks",
        ),
        (
            &to_gone,
            &["--token-file", "token"],
            3,
            "cannot reach an agent",
        ),
    ] {
        let ran = here.dpb(&["run", "tiny.json", on]).args(more).output();
        let ran = ran.expect("dpb runs");
        let err = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{err}");
        assert!(err.contains(said), "{err}\nnot: {said}");
        assert!(!here.at("tiny-results").exists(), "nothing ran");
    }
    assert!(agent.children().is_empty());
}

/// The tags of the service `tasks`, as its page has them.
mod tag {
    pub(super) const CHECK: u8 = 17;
    pub(super) const TEST: u8 = 18;
    pub(super) const DESCRIBED: u8 = 144;
    pub(super) const CHECKED: u8 = 145;
    pub(super) const RECORDS: u8 = 147;
    pub(super) const ENDED: u8 = 148;
    pub(super) const ALL: dpb_link::Tags = dpb_link::Tags {
        body_bytes_max: |tag| {
            (16..=19)
                .contains(&tag)
                .then_some(1 << 20)
                .or((tag >= 144).then_some(1 << 20))
        },
        is_bulk: |_| false,
    };
}

#[test]
fn a_client_that_lies_is_told_so_and_the_agent_lives() {
    let (here, there) = (Place::new(), Place::new());
    let agent = Agent::of_tasks(&there);
    let token = fs::read(there.at("token")).expect("there");
    let token = dpb_link::Token::new(token.trim_ascii()).expect("a token");
    let connect = dpb_link::Connect {
        pass: dpb_link::Pass::Token(token),
        ..dpb_link::Connect::new(agent.address.as_str())
    };
    let order = |test: &str, run: &str| {
        format!(r#"{{ "test": {test}, "repeats": 1, "seed": 1, "run": "{run}" }}"#)
    };
    let good = r#"{ "task": "op", "parameters": { "operator": "crc32c", "size": 64 } }"#;
    let two = r#"{ "task": "op", "parameters": { "operator": "crc32c", "size": [64, 128] } }"#;
    let more = r#"{ "task": "op", "parameters": {}, "program": "sh" }"#;
    let many = format!("[{}]", vec![good; 51].join(","));
    for (tag, body, said) in [
        (tag::TEST, "not JSON".to_owned(), "expected"),
        (tag::TEST, "{}".to_owned(), "missing field"),
        (tag::TEST, order(more, "run"), "unknown field"),
        (tag::TEST, order(good, "../../run"), "the name of a run"),
        (tag::TEST, order(good, ""), "the name of a run"),
        (tag::TEST, order(two, "run"), "another number of tests"),
        (
            tag::TEST,
            order(r#"{ "task": "sh", "parameters": {} }"#, "run"),
            "no task or plug-in",
        ),
        (tag::CHECK, many, "at most 50 at once"),
        (tag::TEST, "x".repeat(100_000), "at most"),
        (tag::DESCRIBED, String::new(), "out of place"),
    ] {
        let session = connect.session().expect("let in");
        let mut link = session.open("tasks", 1, tag::ALL).expect("offered");
        link.send(tag, body.as_bytes()).expect("sent");
        let said_so = link.receive_answer().expect_err("refused").to_string();
        assert!(said_so.contains(said), "{said_so}\nnot: {said}");
    }
    assert!(agent.children().is_empty());
    let ran = here
        .run_on("tiny.json", &agent, "out")
        .args(["--filter", "task=op"])
        .output()
        .expect("dpb runs");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
}

/// An agent's service `tasks` that takes every test, and says this of each.
struct Lies {
    records: &'static str,
    ended: &'static str,
}

impl dpb_link::Service for Lies {
    fn name(&self) -> &str {
        "tasks"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tags(&self) -> dpb_link::Tags {
        tag::ALL
    }

    fn serve(
        &self,
        link: &mut dpb_link::Link,
        _: &dpb_link::ClientInfo,
    ) -> Result<(), dpb_link::LinkError> {
        let machine = serde_json::to_value(dpb_core::measure::Provenance::here(0)).expect("JSON");
        let described = serde_json::json!({
            "machine": machine, "tasks": {},
            "quotas": { "memory_bytes": null, "disk_bytes": 1, "seconds": 1 },
        });
        let taken =
            r#"[{"takes":{"once_s":1e300,"each_run_s":-1.0,"memory_bytes":0,"disk_bytes":0}}]"#;
        while let Some(header) = link.receive_header()? {
            link.receive_body(header)?;
            match header.tag {
                tag::CHECK => link.send(tag::CHECKED, taken.as_bytes())?,
                tag::TEST => {
                    link.send(tag::RECORDS, self.records.as_bytes())?;
                    link.send(tag::ENDED, self.ended.as_bytes())?;
                }
                _ => link.send(tag::DESCRIBED, described.to_string().as_bytes())?,
            }
        }
        Ok(())
    }
}

#[test]
fn an_agent_that_lies_gives_no_number() {
    let here = Place::new();
    let ended = r#"{ "code": 0, "stderr": "" }"#;
    for (number, (records, ended, said)) in [
        ("", ended, "its records are not of the task op"),
        ("{ \"id\": 1 }\n", ended, "record 1"),
        ("garbage\n", ended, "record 1"),
        ("", "{}", "missing field"),
    ]
    .into_iter()
    .enumerate()
    {
        let listen = "127.0.0.1:0".parse().expect("an address");
        let lies = std::sync::Arc::new(Lies { records, ended });
        let agent = dpb_link::Agent::bind(dpb_link::AgentOptions::new(listen), vec![lies]);
        let agent = agent.expect("loopback");
        let on = format!("--on=dpu={}", agent.address());
        let is_over = AtomicBool::new(false);
        let out = format!("out-{number}");
        let ran = thread::scope(|scope| {
            scope.spawn(|| agent.run(&|| is_over.load(Ordering::Relaxed)));
            let words = [
                "run",
                "tiny.json",
                &on,
                "--filter",
                "task=op",
                "--out",
                &out,
            ];
            let ran = here.dpb(&words).arg("--without-this-machine").output();
            is_over.store(true, Ordering::Relaxed);
            ran.expect("dpb runs")
        });
        assert_eq!(ran.status.code(), Some(1), "{}", text(&ran.stderr));
        let records = here.records(&out);
        let [
            Record {
                outcome: Outcome::Failed { reason },
                ..
            },
        ] = &records[..]
        else {
            panic!("one failure: {records:?}");
        };
        assert!(reason.contains(said), "{reason}\nnot: {said}");
    }
}

/// Whether a text has a word of 64 hexadecimal digits: a token, or a fingerprint.
fn has_secret(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_ascii_hexdigit());
    words.into_iter().any(|word| word.len() >= 64)
}

#[test]
fn ssh_starts_an_agent_and_nothing_stays() {
    let (here, there) = (Place::new(), Place::new());
    let log = there.at("log");
    let stand_in = format!(
        "#!/bin/sh\nif [ \"$1\" = -G ]; then echo 'hostname 127.0.0.1'; exit; fi\n\
         echo \"$@\" >> {log}\necho $$ >> {log}.pids\nfor script; do :; done\n\
         export HOME={home} TMPDIR={tmp} DPB_DATA_DIR={data}\nexec sh -c \"$script\"\n",
        log = log.display(),
        home = there.0.path().display(),
        tmp = there.at("tmp").display(),
        data = there.at("data").display(),
    );
    here.write("bin/ssh", &stand_in, 0o755);
    for is_installed in [false, true] {
        if is_installed {
            fs::create_dir_all(there.at(".local/bin")).expect("a folder");
            symlink(DPB, there.at(".local/bin/dpb")).expect("linked");
        }
        let out = format!("out-{is_installed}");
        let ran = here
            .dpb(&[
                "run",
                "tiny.json",
                "--on=dpu=ssh:user@elsewhere",
                "--out",
                &out,
            ])
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", here.at("bin").display()),
            )
            .output()
            .expect("dpb runs");
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let records = here.records(&out);
        assert_eq!(records.len(), 5);
        done(&records);
        assert_eq!(there.temporary(), [""; 0], "the copy is gone");
    }
    let said = fs::read_to_string(&log).expect("it was called");
    assert!(
        said.contains("user@elsewhere") && !has_secret(&said),
        "{said}"
    );
    assert_eq!(said.matches("cat >").count(), 1, "copied once: {said}");
    let pids = fs::read_to_string(there.at("log.pids")).expect("written");
    for pid in pids.lines() {
        assert!(!runs(pid.parse().expect("a number")), "{pid} goes on");
    }
}

#[test]
fn a_machine_that_ssh_does_not_reach_is_told_of() {
    let here = Place::new();
    for (script, said) in [
        ("echo 'no route' >&2; exit 255", "no route"),
        (
            "echo mips64; exit 0",
            "cargo xtask install --target mips64 --ssh user@dpu",
        ),
    ] {
        here.write("bin/ssh", &format!("#!/bin/sh\n{script}\n"), 0o755);
        let ran = here
            .dpb(&["run", "tiny.json", "--on=dpu=ssh:user@dpu"])
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", here.at("bin").display()),
            )
            .output()
            .expect("dpb runs");
        let err = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(3), "{err}");
        assert!(err.contains(said), "{err}");
    }
}

/// An sshd on loopback that takes one key; `None` with the reason where there can be none.
fn sshd(place: &Place) -> Result<(Child, u16), String> {
    const SSHD: &str = "/usr/sbin/sshd";
    if !Path::new(SSHD).is_file() {
        return Err("no /usr/sbin/sshd; apt-get install openssh-server".to_owned());
    }
    // Its folder for privilege separation, which the system makes when the service starts; root alone can.
    let _ = fs::create_dir("/run/sshd");
    for key in ["host_key", "user_key"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(place.at(key))
            .output()
            .map_err(|error| format!("ssh-keygen: {error}"))?;
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("its address").port();
    drop(free);
    let folder = place.0.path().display();
    let config = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/user_key.pub\n\
         PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n\
         SetEnv PATH={folder}/bin:/usr/bin:/bin DPB_DATA_DIR={folder}/data TMPDIR={folder}/tmp\n"
    );
    place.write("sshd_config", &config, 0o600);
    let said = fs::File::create(place.at("sshd.log")).expect("a file");
    let mut child = Command::new(SSHD)
        .args(["-D", "-e", "-f"])
        .arg(place.at("sshd_config"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .map_err(|error| error.to_string())?;
    let is_listening = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    let pid = child.id();
    wait_until(Duration::from_secs(10), || is_listening() || !runs(pid));
    match is_listening() {
        true => Ok((child, port)),
        false => {
            let _ = child.kill();
            let _ = child.wait();
            Err(fs::read_to_string(place.at("sshd.log")).unwrap_or_default())
        }
    }
}

#[test]
fn a_real_sshd_starts_an_agent() {
    let (here, there) = (Place::new(), Place::new());
    let (mut daemon, port) = match sshd(&there) {
        Ok(started) => started,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    symlink(DPB, there.at("bin/dpb")).expect("linked");
    let folder = there.0.path().display();
    let command = format!(
        "ssh -p {port} -i {folder}/user_key -F /dev/null -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile={folder}/known"
    );
    let ran = here.output(&[
        "run",
        "tiny.json",
        "--on=dpu=ssh:127.0.0.1",
        "--ssh-command",
        &command,
        "--out",
        "out",
    ]);
    let of_daemon = children(daemon.id());
    daemon.kill().expect("killed");
    daemon.wait().expect("reaped");
    let err = text(&ran.stderr);
    let said = fs::read_to_string(there.at("sshd.log")).unwrap_or_default();
    assert!(ran.status.success(), "{err}\n{said}");
    let records = here.records("out");
    assert_eq!(records.len(), 5);
    done(&records);
    let is_over = wait_until(PATIENCE, || of_daemon.iter().all(|&pid| !runs(pid)));
    assert!(is_over, "its session goes on");
    assert_eq!(there.temporary(), [""; 0]);
}
