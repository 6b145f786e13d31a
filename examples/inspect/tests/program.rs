//! The program, run as a person does.

use std::process::Command;

use sha2::{Digest, Sha256};

mod support;

use support::{expected, files, frames, pcap};

#[test]
fn the_program_reads_captures() {
    let folder = tempfile::tempdir().unwrap();
    let [routes, rules] = files(folder.path());
    let frames = frames(100);
    let capture = folder.path().join("some.pcap");
    std::fs::write(&capture, pcap(&frames)).unwrap();
    let run = |capture: &std::path::Path| {
        Command::new(env!("CARGO_BIN_EXE_inspect"))
            .args(["--rules", rules.strip_prefix("rules=").unwrap()])
            .args(["--routes", routes.strip_prefix("routes=").unwrap()])
            .args(["--backends", "cpu,pool/2,cpu,cpu,sim/default,cpu"])
            .arg(capture)
            .output()
            .unwrap()
    };
    let output = run(&capture);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (right, payloads) = expected(&frames);
    for payload in &payloads {
        let digest = Sha256::digest(payload)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        assert!(
            said.contains(&format!("{} {digest}", payload.len())),
            "{said}"
        );
    }
    assert!(
        said.contains(&format!("damaged: {}", right.damaged)),
        "{said}"
    );

    let torn = folder.path().join("torn.pcap");
    std::fs::write(&torn, &pcap(&frames)[..500]).unwrap();
    let output = run(&torn);
    assert!(!output.status.success());
}
