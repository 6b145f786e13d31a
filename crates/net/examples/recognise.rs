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
    let (repeat, files) = flows::arguments().unwrap_or_else(|why| {
        eprintln!("recognise: {why}");
        std::process::exit(2);
    });
    match repeat {
        None => files
            .iter()
            .for_each(|(path, packets)| print(path, packets)),
        Some(repeat) => time(&files, repeat),
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

fn time(files: &[(PathBuf, Vec<file::Seen>)], repeat: usize) {
    let (numbered, flows) = flows::numbered(files);
    let packets: Vec<(usize, u32, Packet<'_>)> = (numbered.iter())
        .map(|one| {
            let packet = flows::packet(one.seen, one.flow as u64, one.direction);
            (one.flow, one.time_ms, packet)
        })
        .collect();
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
