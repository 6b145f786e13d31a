//! Applications in captures, and how fast they are recognised: `cargo run --release -p dpb-net --example recognise -- [--repeat N] FILE|FOLDER …`
//!
//! Packets are in memory before the clock starts, each with the number of its flow. Without `--repeat` each flow's verdict is printed; with it the packets
//! go through a new recognizer N times, and the best and the median rate are printed. What is timed is the recognizer alone, its table of marks included.

#[path = "../tests/captures/file.rs"]
mod file;
#[path = "../tests/captures/flows.rs"]
mod flows;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dpb_net::recognition::{Applications, Evidence, Mark, Packet, Recognizer, Settings};

fn main() {
    let mut repeat = 0;
    let mut paths = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--repeat" => repeat = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(0),
            path => collect(Path::new(path), &mut paths),
        }
    }
    if paths.is_empty() {
        eprintln!("usage: recognise [--repeat N] FILE|FOLDER …");
        std::process::exit(2);
    }
    paths.sort();
    let files = paths
        .iter()
        .filter_map(|path| Some((path, std::fs::read(path).ok()?)));
    let files: Vec<_> = files
        .map(|(path, bytes)| (path, file::packets(&bytes)))
        .collect();
    match repeat {
        0 => files
            .iter()
            .for_each(|(path, packets)| print(path, packets)),
        repeat => time(
            files.iter().map(|(_, packets)| &packets[..]).collect(),
            repeat,
        ),
    }
}

/// The captures below a folder, or the file itself.
fn collect(path: &Path, into: &mut Vec<PathBuf>) {
    match std::fs::read_dir(path) {
        Ok(entries) => entries
            .flatten()
            .for_each(|entry| collect(&entry.path(), into)),
        Err(_) => into.push(path.to_owned()),
    }
}

fn print(path: &Path, packets: &[file::Seen]) {
    let list = Applications::built_in();
    let mut recognizer = Recognizer::new(Settings::default(), list.clone());
    for (([(low, low_port), (high, high_port)], is_tcp), verdict) in
        flows::verdicts(&mut recognizer, packets)
    {
        let address = |address: u128| std::net::Ipv6Addr::from_bits(address).to_canonical();
        println!(
            "{}\t{}\t{} {low_port}\t{} {high_port}\t{}\t{:?}\t{}\t{}\t{}\t{}",
            path.display(),
            if is_tcp { "tcp" } else { "udp" },
            address(low),
            address(high),
            verdict.label.protocol,
            verdict.label.evidence,
            verdict
                .label
                .application
                .map_or("-", |application| list.name(application)),
            verdict.host,
            verdict.ja4.map(|ja4| ja4.to_string()).unwrap_or_default(),
            verdict.packets,
        );
    }
}

fn time(files: Vec<&[file::Seen]>, repeat: usize) {
    // Each file is a net of its own; the number of a flow is its place among all marks.
    let mut packets: Vec<(usize, u32, Packet<'_>)> = Vec::new();
    let mut flows = 0;
    for file in &files {
        let mut numbers = HashMap::new();
        let mut now_ms = 0;
        for seen in *file {
            now_ms = now_ms.max(seen.time_ms);
            let (tuple, direction) = flows::tuple(seen);
            let number = *numbers.entry(tuple).or_insert_with(|| {
                flows += 1;
                flows - 1
            });
            packets.push((
                number,
                now_ms,
                flows::packet(seen, number as u64, direction),
            ));
        }
    }
    let mut rates = Vec::new();
    let mut stats = None;
    let mut by_evidence: HashMap<Evidence, usize> = HashMap::new();
    for _ in 0..repeat {
        let mut recognizer = Recognizer::new(Settings::default(), Applications::built_in());
        let mut marks = vec![Mark::default(); flows];
        // Its memory is there once, however many packets come.
        let start = Instant::now();
        for (flow, now_ms, packet) in &packets {
            recognizer.packet(&mut marks[*flow], packet, *now_ms);
        }
        rates.push(packets.len() as f64 / start.elapsed().as_secs_f64());
        stats = Some(recognizer.stats());
        for mark in &mut marks {
            recognizer.end(mark, u32::MAX);
        }
        by_evidence.clear();
        for label in marks.iter().filter_map(|mark| mark.label()) {
            *by_evidence.entry(label.evidence).or_default() += 1;
        }
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "{} packets of {flows} flows in {} files",
        packets.len(),
        files.len()
    );
    println!(
        "median {:.2} M packets/s, best {:.2}",
        rates[repeat / 2] / 1e6,
        rates[repeat - 1] / 1e6
    );
    println!("{stats:?}\n{by_evidence:?}");
}
