//! `dpb pushdown --bulk` where RDMA cannot be had: everything comes over TCP, and who asked is told why. Where it can, `cargo
//! xtask vm rdma` tries it.

mod support;

use dpb_core::measure::{Outcome, Record, Value};
use support::{finish, records, sweep, text};

/// A run of our scheme alone; its one record, and what it said.
fn run(arguments: &[&str]) -> (Record, String) {
    let ran = sweep(&[&["--schemes", "dpb"][..], arguments].concat());
    let said = text(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {said}");
    let mut records = records(&ran);
    assert_eq!(records.len(), 1);
    (records.remove(0), said)
}

fn parameter<'a>(record: &'a Record, name: &str) -> Option<&'a str> {
    match record.parameters.get(name)? {
        Value::Text(text) => Some(text),
        other => panic!("{other}"),
    }
}

#[test]
fn without_a_device_it_is_tcp_and_the_reason_is_said() {
    let (plain, said) = run(&[]);
    assert_eq!(parameter(&plain, "bulk"), Some("tcp"));
    assert_eq!(parameter(&plain, "bulk_fallback"), None);
    assert!(!said.contains("bulk results"), "{said}");
    let cases: [(&[&str], &str); 2] = [
        (&["--bulk", "rdma/no-such-device"], "; "),
        (&["--bulk", "rdma", "--link-gbps", "10"], "pace"),
    ];
    for (arguments, why) in cases {
        let (record, said) = run(arguments);
        assert_eq!(record.outcome, Outcome::Done);
        assert_eq!(parameter(&record, "bulk"), Some("tcp"));
        let reason = parameter(&record, "bulk_fallback").expect("a reason");
        assert!(reason.contains(why), "{reason}");
        assert!(
            said.contains(reason) && said.contains("over TCP, not rdma"),
            "{said}"
        );
        assert_eq!(said.matches("over TCP").count(), 1, "once: {said}");
        assert_eq!(record.counts["bulk_bytes_from_agent"], 0);
        assert_eq!(record.counts["rows"], plain.counts["rows"]);
        // A pace stands for a link that is not there.
        match arguments.contains(&"--link-gbps") {
            true => assert_eq!(record.evidence.kind(), "emulated"),
            false => assert_eq!(record.evidence, plain.evidence),
        }
        let digest = |record: &Record| record.check.clone().expect("checked").digest;
        assert_eq!(digest(&record), digest(&plain));
    }
}

#[test]
fn a_way_that_nobody_knows_is_wrong_usage() {
    for verb in ["pushdown", "serve"] {
        for way in ["udp", "rdma/", ""] {
            let ran = finish(&[verb, "--bulk", way]);
            let said = text(&ran.stderr);
            assert_eq!(ran.status.code(), Some(2), "{verb} {way}: {said}");
            assert!(said.contains("--bulk"), "{said}");
        }
    }
}
