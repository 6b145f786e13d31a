//! `dpb serve` as a real process: who may ask it, where it listens, what it offers, how it ends; and what clients say of agents that are
//! not there, not theirs, or without the data.

mod support;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use dpb_core::measure::Value;
use dpb_dbmods::service::client::{Client, ClientError};
use dpb_dbmods::service::protocol::{self, DataSet, FileFormat, Refusal};
use support::{Agent, data_dir, finish, make_data, records, sweep, text};

const TOKEN: &str = "sixteen or more letters";

/// An agent as `dpb pushdown` starts one for itself.
fn owned_agent() -> Agent {
    Agent::start_with(&["--until-stdin-closes"], TOKEN)
}

fn write_token(path: &Path, token: &str) {
    std::fs::write(path, token).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn an_agent_elsewhere_wants_its_token() {
    make_data("0.01");
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (folder.path().join("right"), folder.path().join("wrong"));
    write_token(&right, "correct horse battery staple\n");
    write_token(&wrong, "correct horse battery stapler\n");
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    let agent = Agent::start(&["--token-file", right]);
    let ask = |extra: &[&str]| {
        let there = ["--schemes", "dpb", "--server", &agent.address];
        sweep(&[&there[..], extra].concat())
    };
    let ran = ask(&["--token-file", right]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(
        records(&ran)[0].parameters["server"],
        Value::Text(agent.address.clone())
    );
    for extra in [&["--token-file", wrong][..], &[]] {
        let refused = ask(extra);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            text(&refused.stderr).contains("token"),
            "{}",
            text(&refused.stderr)
        );
        assert!(refused.stdout.is_empty());
    }
    assert!(ask(&["--token-file", right]).status.success());
}

#[test]
fn an_agent_with_credentials_encrypts_and_knows_its_clients() {
    make_data("0.01");
    let folder = tempfile::tempdir().unwrap();
    let init = |name: &str| {
        let dir = folder.path().join(name).to_str().unwrap().to_owned();
        let made = finish(&["serve", "init", &dir]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        let client = format!("{dir}/client.credentials");
        assert!(
            text(&made.stdout).contains(&client),
            "{}",
            text(&made.stdout)
        );
        let mode = fs::metadata(&client).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        (dir, client)
    };
    let (dir, client) = init("one");
    let again = finish(&["serve", "init", &dir]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("is there already"));
    let agent = Agent::start(&["--credentials", &dir]);
    let ask = |extra: &[&str]| {
        let there = ["--schemes", "dpb,fetch", "--server", &agent.address];
        sweep(&[&there[..], extra].concat())
    };
    let ran = ask(&["--credentials", &client]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let records = records(&ran);
    let checked = records.iter().filter_map(|record| record.check.as_ref());
    assert!(checked.map(|check| check.compared).sum::<u64>() > 0);
    let (_, others) = init("two");
    let token = folder.path().join("token");
    fs::copy(folder.path().join("one/token"), &token).unwrap();
    for (extra, says) in [
        (&["--credentials", &others][..], "certificate is sha256:"),
        (&[], "--credentials FILE"),
        (
            &["--token-file", token.to_str().unwrap()],
            "--credentials FILE",
        ),
        (
            &["--credentials", token.to_str().unwrap()],
            "credentials file",
        ),
    ] {
        let refused = ask(extra);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
    // And one that does not encrypt.
    let plain = Agent::start(&[]);
    let refused = finish(&[
        "pushdown",
        "--server",
        &plain.address,
        "--credentials",
        &client,
    ]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("does not speak TLS"), "{said}");
}

#[test]
fn nothing_is_sent_in_clear_to_another_machine() {
    // A documentation address (RFC 5737): nobody has it, and nobody is asked.
    let refused = finish(&[
        "pushdown",
        "--server",
        "192.0.2.1:7400",
        "--out",
        "/dev/null",
    ]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("dpb serve init"));
}

#[test]
fn a_token_that_others_can_read_or_guess_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let file = path.to_str().unwrap();
    let refused = |command: &[&str]| {
        let ran = finish(&[command, &["--token-file", file]].concat());
        assert_eq!(ran.status.code(), Some(2));
        text(&ran.stderr)
    };
    let serve = &["serve", "--listen", "127.0.0.1:0"][..];
    let ask = &["pushdown", "--server", "127.0.0.1:1", "--out", "/dev/null"][..];
    write_token(&path, "fifteen letters\n");
    for said in [refused(serve), refused(ask)] {
        assert!(
            said.contains("16 to 512 bytes") && said.contains("/dev/urandom"),
            "{said}"
        );
    }
    write_token(&path, "correct horse battery staple\n");
    for mode in [0o640, 0o604] {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        for said in [refused(serve), refused(ask)] {
            assert!(said.contains("chmod 600"), "{said}");
        }
    }
    std::fs::remove_file(&path).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
    for said in [refused(serve), refused(ask)] {
        assert!(said.contains("not a regular file"), "{said}");
    }
}

#[test]
fn an_agent_says_which_services_it_offers() {
    let agent = Agent::start(&[]);
    let session = dpb_link::Connect::new(&*agent.address).session().unwrap();
    let offered: Vec<&str> = session.services().iter().map(|s| s.name.as_str()).collect();
    assert_eq!(offered, ["pushdown", "echo", "operators", "index"]);
    let (name, version, tags) = (
        dpb_link::echo::NAME,
        dpb_link::echo::VERSION,
        dpb_link::echo::TAGS,
    );
    let mut link = session.open(name, version, tags).unwrap();
    dpb_link::echo::round_trip(&mut link, &[7; 100_000]).unwrap();
}

#[test]
fn a_client_has_no_more_threads_than_the_agent_is_told() {
    let agent = Agent::start(&["--client-threads", "1", "--total-threads", "2"]);
    let run = |backend: &str| {
        let name = format!("remote/{}/{backend}", agent.address);
        let to = [
            "--seconds",
            "0.01",
            "--format",
            "json",
            "--out",
            "/dev/null",
        ];
        finish(&[&["op", "crc32c", "--backend", &name][..], &to].concat())
    };
    let before = agent.threads();
    let refused = run("pool/1024");
    let words = text(&[refused.stdout, refused.stderr].concat());
    assert!(words.contains("may have 1 threads"), "{words}");
    assert!(agent.threads() < before + 100);
    let ran = run("pool/1");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    // A client may not have more than all of them.
    let more = ["serve", "--client-queues", "3", "--total-queues", "2"];
    let refused = finish(&more);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--total-queues 2"));
}

#[test]
fn a_backend_that_cannot_be_had_is_refused() {
    for (backend, code, said) in [
        ("sim/default", 2, "clock of its own"),
        ("no/such", 2, "dpb list backends"),
        ("pool/0", 2, "dpb list backends"),
        ("rdma/none", 3, "dpb doctor"),
    ] {
        let ran = finish(&["serve", "--listen", "127.0.0.1:0", "--backend", backend]);
        let words = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{words}");
        assert!(words.contains(said), "{words}");
    }
}

#[test]
fn caches_are_dropped_at_ones_own_agents_and_where_it_is_allowed() {
    make_data("0.01");
    let cold = |agent: &Agent, token: &str| {
        let mut client = Client::connect(&agent.address, token.as_bytes(), 0)?;
        client.make_cold(
            &DataSet::tpch(0.01).unwrap(),
            "lineitem",
            FileFormat::Segment,
        )
    };
    // In memory it cannot be made cold, but who may ask is told that.
    let allowed = |told: Result<(), ClientError>| match told {
        Ok(()) => true,
        Err(ClientError::Refused { text, .. }) => text.contains("stay in memory"),
        Err(other) => panic!("{other}"),
    };
    match cold(&Agent::start(&[]), "") {
        Err(ClientError::Refused { text, .. }) => assert!(text.contains("--allow-cold"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert!(allowed(cold(&Agent::start(&["--allow-cold"]), "")));
    let owned = owned_agent();
    assert!(allowed(cold(&owned, TOKEN)));
    match cold(&owned, "") {
        Err(ClientError::Refused { refusal, .. }) => assert_eq!(refusal, Refusal::Token),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_loads_duckdb_for_who_asks_for_it() {
    let agent = Agent::start(&[]);
    let is_loaded = || {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", agent.pid())).unwrap();
        maps.contains("libduckdb")
    };
    let ours = protocol::CAPABILITY_FETCH;
    let mut client = Client::connect_for(&agent.address, &[], 0, ours).unwrap();
    client.describe(&DataSet::tpch(0.01).unwrap()).unwrap();
    assert!(client.agent().duckdb.is_err() && !is_loaded());
    let client = Client::connect(&agent.address, &[], 0).unwrap();
    match &client.agent().duckdb {
        Ok(version) => assert!(is_loaded() && version.starts_with('v'), "{version}"),
        Err(missing) => println!("skipped: {missing}"),
    }
}

#[test]
fn an_address_that_is_taken_or_open_to_all_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (listen, code, words) in [
        (address.as_str(), 3, "--listen"),
        ("0.0.0.0:0", 2, "dpb serve init"),
        ("[::]:0", 2, "dpb serve init"),
        ("nonsense", 2, "127.0.0.1:7400"),
    ] {
        let refused = finish(&["serve", "--listen", listen]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(code), "{listen}: {said}");
        assert!(said.contains(words), "{listen}: {said}");
    }
}

#[test]
fn an_agent_that_is_not_there_or_not_ours_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().to_str().unwrap();
    let ask = |address: &str| {
        let refused = finish(&["pushdown", "--server", address, "--data-dir", data_dir]);
        assert_eq!(fs::read_dir(data_dir).unwrap().count(), 0);
        (refused.status.code(), text(&refused.stderr))
    };
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let (code, said) = ask(&address);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains(&address) && said.contains("dpb serve"),
        "{said}"
    );

    let welcome_of_version_9 = [131 - 2, 0, 0, 0, 16, 0, 0, 0]
        .into_iter()
        .chain(*b"DPBW\x09\0\0\0")
        .chain([0; 8])
        .collect::<Vec<u8>>();
    for (answer, words) in [
        (welcome_of_version_9, "version 9"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "tag"),
        (vec![], "closed"),
    ] {
        let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = stranger.local_addr().unwrap().to_string();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = stranger.accept().unwrap();
            let mut hello = [0; 32];
            stream.read_exact(&mut hello).unwrap();
            stream.write_all(&answer).unwrap();
        });
        let (code, said) = ask(&address);
        answering.join().unwrap();
        assert!(matches!(code, Some(1 | 3)), "{said}");
        assert!(said.contains(words) && said.contains(&address), "{said}");
    }
}

#[test]
fn an_agent_without_the_data_says_what_to_do() {
    let empty = tempfile::tempdir().unwrap();
    let agent = Agent::start(&["--data-dir", empty.path().to_str().unwrap()]);
    let ran = finish(&["pushdown", "--server", &agent.address, "--out", "/dev/null"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(3), "{said}");
    assert!(said.contains("dpb data"), "{said}");
}

#[test]
fn an_agent_ends_on_a_signal_and_with_its_standard_input() {
    let mut agent = Agent::start(&[]);
    let pid = rustix::process::Pid::from_raw(agent.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(agent.child.wait().unwrap().success());

    let mut owned = owned_agent();
    drop(owned.child.stdin.take());
    assert!(owned.child.wait().unwrap().success());
    assert!(data_dir().is_absolute());
}
