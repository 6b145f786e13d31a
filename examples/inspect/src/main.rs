//! `cargo run --release -p inspect -- --rules rules.txt capture.pcap`: see the library's page.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use dpb_net::port::capture;
use inspect::{BURST, FAMILIES, Found, Inspector};

/// Captures through checksums, RSS, routes, rules, SHA-256 and DEFLATE
///
/// Backends as for dpb: cpu, cpu/portable, pool/2, sim/default, faulty/.
#[derive(Parser)]
struct Args {
    /// Capture files (pcap, pcapng)
    #[arg(required = true)]
    captures: Vec<PathBuf>,
    /// A rule file, `id:/expression/flags` on each line [default: 149 rules of dpb's]
    #[arg(long, default_value = "-")]
    rules: String,
    /// A list of IPv4 routes, a prefix and a hop on each line
    #[arg(long, default_value = "generated:10000")]
    routes: String,
    /// Backends of checksums, hashes, routes, rules, digests and compression; captures lie in memory of the first, so that a device
    /// that works on its own memory alone has to be it
    #[arg(long, value_delimiter = ',', default_value = "cpu,cpu,cpu,cpu,cpu,cpu")]
    backends: Vec<String>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let backends: Vec<&str> = args.backends.iter().map(String::as_str).collect();
    let backends = <[_; 6]>::try_from(backends).ok().context("six backends")?;
    let routes = format!("routes={}", args.routes);
    let rules = format!("rules={}", args.rules);
    let mut inspector = Inspector::new(backends, &routes, &rules)?;
    let memory = FAMILIES.open(backends[0])?;
    let mut found = Found::default();
    for path in &args.captures {
        let name = path.display();
        let bytes = fs::read(path).with_context(|| name.to_string())?;
        // Places in a buffer have 32 bits.
        ensure!(
            u32::try_from(bytes.len()).is_ok(),
            "{name}: longer than 4 GiB; cut it, with editcap -c for one"
        );
        let frames: Vec<_> = capture::packets(&bytes)?.collect::<Result<_, _>>()?;
        let mut file = memory.alloc(bytes.len())?;
        file.copy_from_slice(&bytes);
        let file = file.freeze();
        for burst in frames.chunks(BURST) {
            inspector.inspect(&file, burst, &mut found, |payload, digest, _| {
                let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                println!("{name}:{} {} {digest}", payload.start, payload.len());
            })?;
        }
    }
    println!("{found:#?}");
    Ok(())
}
