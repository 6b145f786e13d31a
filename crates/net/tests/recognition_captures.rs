//! Names of servers in real captures, beside those that tshark finds in them.
//!
//! The captures are others' and stay out of the repository: `DPB_CAPTURES` names a folder of them, such as checkouts of OISF/suricata-verify (MIT), zeek/zeek
//! (BSD 3-clause, `testing/btest/Traces`) and cisco-system-traffic-generator/trex-core (Apache-2.0, `scripts/{avl,cap2,astf}`). What tshark says is kept in a
//! file of that folder, since it takes a second for each capture.

#[path = "captures/file.rs"]
mod file;
#[path = "captures/flows.rs"]
mod flows;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dpb_net::recognition::{Applications, NameSource, Recognizer, Settings};

/// Where tshark's findings are kept.
const FINDINGS: &str = "tshark-names.tsv";

/// Fields of tshark, in this order.
const FIELDS: [&str; 1] = ["tls.handshake.extensions_server_name"];

/// All captures below a folder.
fn captures(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_capture = path.extension().is_some_and(|end| {
            ["pcap", "pcapng", "cap", "trace"]
                .iter()
                .any(|known| end == *known)
        });
        match path.is_dir() {
            true => captures(&path, into),
            false if is_capture => into.push(path),
            false => {}
        }
    }
}

/// The names that tshark finds in a file, one a line.
fn asked(path: &Path) -> Option<BTreeSet<String>> {
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-n",
        "-T",
        "fields",
        "-E",
        "occurrence=a",
        "-E",
        "aggregator= ",
    ]);
    tshark.args([
        "-o",
        "tcp.reassemble_out_of_order:TRUE",
        "-Y",
        "tls.handshake.type==1",
    ]);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    let output = tshark.arg("-r").arg(path).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split_whitespace().map(str::to_owned).collect())
}

/// What tshark found in each file, from its findings of an earlier run where there are some.
fn findings(folder: &Path, paths: &[PathBuf]) -> Option<BTreeMap<PathBuf, BTreeSet<String>>> {
    let kept = fs::read_to_string(folder.join(FINDINGS)).unwrap_or_default();
    let mut found: BTreeMap<PathBuf, BTreeSet<String>> = (kept.lines())
        .filter_map(|line| line.split_once('\t'))
        .map(|(path, names)| {
            let names = names.split_whitespace().map(str::to_owned).collect();
            (folder.join(path), names)
        })
        .collect();
    let before = found.len();
    for path in paths {
        if !found.contains_key(path) {
            found.insert(path.clone(), asked(path)?);
        }
    }
    if found.len() > before {
        let line = |(path, names): (&PathBuf, &BTreeSet<String>)| {
            let path = path.strip_prefix(folder).unwrap_or(path);
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("{}\t{}\n", path.display(), names.join(" "))
        };
        let text: String = found.iter().map(line).collect();
        fs::write(folder.join(FINDINGS), text).expect("the folder can be written");
    }
    Some(found)
}

/// The names that a recognizer finds in hellos.
fn recognised(path: &Path) -> BTreeSet<String> {
    let packets = file::packets(&fs::read(path).expect("a file"));
    let mut recognizer = Recognizer::new(Settings::default(), Applications::built_in());
    let verdicts = flows::verdicts(&mut recognizer, &packets);
    let is_hello = |source| matches!(source, Some(NameSource::Sni | NameSource::OuterSni));
    let hellos = verdicts
        .iter()
        .filter(|(_, verdict)| is_hello(verdict.source));
    let names = hellos.map(|(_, verdict)| verdict.host.to_string());
    names.filter(|name| !name.contains(' ')).collect()
}

#[test]
fn every_name_that_tshark_finds_is_found() {
    let Some(folder) = std::env::var_os("DPB_CAPTURES").map(PathBuf::from) else {
        println!(
            "skipped: no captures; name a folder of them in DPB_CAPTURES, this file says which"
        );
        return;
    };
    let mut paths = Vec::new();
    captures(&folder, &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "no captures in DPB_CAPTURES");
    let Some(findings) = findings(&folder, &paths) else {
        println!("skipped: no tshark; apt-get install tshark");
        return;
    };
    let mut missing = Vec::new();
    let mut more = 0;
    let mut names = 0;
    for path in &paths {
        let (wanted, got) = (&findings[path], recognised(path));
        names += wanted.len();
        more += got.difference(wanted).count();
        for name in wanted.difference(&got) {
            missing.push(format!("{}: {name}", path.display()));
        }
        for name in got.difference(wanted) {
            println!("only here: {}: {name}", path.display());
        }
    }
    println!(
        "{} captures, {names} names of tshark's, {more} that it has not",
        paths.len()
    );
    assert!(
        missing.is_empty(),
        "missing {}:\n{}",
        missing.len(),
        missing.join("\n")
    );
}
