//! `cargo xtask bench --ns3`: the simulation's speed beside ns-3's.
//!
//! Both simulate two clients that send to one server over links of 10 Gbit/s and 1 µs, with CUBIC and packets of 1500 bytes; ns-3 has a router where dpb has a switch.
//! ns-3's program is compiled against the system's library. Each takes turns with the other, and medians are compared: an event of one is no event of the other, so the wall time of
//! a simulated second is what counts.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::shell;

/// The libraries of ns-3 that its programs use.
const LIBRARIES: [&str; 6] = [
    "applications",
    "internet",
    "traffic-control",
    "point-to-point",
    "network",
    "core",
];
/// Simulated milliseconds of ns-3, which is slower, and of dpb.
const NS3_MS: u64 = 100;
const DPB_MS: u64 = 1000;

/// The figures of a run.
struct Speed {
    /// Simulated milliseconds.
    simulated_ms: u64,
    wall_s: f64,
    events: f64,
    bytes: f64,
}

impl Speed {
    /// Wall seconds for a simulated second.
    fn slowness(&self) -> f64 {
        self.wall_s * 1000.0 / self.simulated_ms as f64
    }
}

/// Compiles ns-3's programs, runs one of them and dpb's example in turn, and prints both.
pub(super) fn run(is_quick: bool) -> Result<()> {
    let folder = shell::target_dir().join("ns3");
    std::fs::create_dir_all(&folder)?;
    let bulk = compile("bulk_tcp", &folder)?;
    // Its figures are in the tests of dpb-sim, and take twenty minutes: it is to stay compilable.
    compile("loss_tcp", &folder)?;
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "-p", "dpb-sim", "--example", "bulk"]);
    shell::run(&mut cargo)?;
    let example = shell::target_dir().join("release/examples/bulk");
    let turns = if is_quick { 1 } else { 5 };
    let (mut theirs, mut ours, mut on_two) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 1..=turns {
        println!("turn {turn} of {turns}");
        theirs.push(of_ns3(&bulk)?);
        let [one, two] = of_dpb(&example)?;
        ours.push(one);
        on_two.push(two);
    }
    let ns3 = median(theirs);
    let rows = [
        ("ns-3", &ns3),
        ("dpb, 1 thread", &median(ours)),
        ("dpb, 2 threads", &median(on_two)),
    ];
    println!(
        "\nmeasured; medians of {turns} turns; two clients, one server, 10 Gbit/s, 1 us, CUBIC"
    );
    println!(
        "| | simulated | Gbit/s | events | wall | wall for a simulated second | beside ns-3 |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, speed) in rows {
        println!(
            "| {name} | {} ms | {:.2} | {:.0} | {:.3} s | {:.3} s | {:.1}x |",
            speed.simulated_ms,
            speed.bytes * 8e-6 / speed.simulated_ms as f64,
            speed.events,
            speed.wall_s,
            speed.slowness(),
            ns3.slowness() / speed.slowness(),
        );
    }
    Ok(())
}

/// Compiles a program of `benches/peers/ns3`.
fn compile(name: &str, folder: &std::path::Path) -> Result<PathBuf> {
    let mut flags = Command::new("pkg-config");
    flags.args(["--cflags", "ns3-core"]);
    let flags = shell::output(&mut flags).context(
        "ns-3 is not here: `apt-get install libns3-dev`, or `cargo xtask setup --install`",
    )?;
    let program = folder.join(name);
    let source = shell::root().join(format!("benches/peers/ns3/{name}.cc"));
    let mut compiler = Command::new("c++");
    compiler.args(["-O2", "-std=c++17"]).arg(source);
    compiler.arg("-o").arg(&program);
    compiler.args(flags.split_whitespace());
    // Not as pkg-config says: it names libraries of libraries too, which these programs need not have.
    compiler.args(LIBRARIES.map(|library| format!("-lns3-{library}")));
    shell::run(&mut compiler)?;
    Ok(program)
}

fn of_ns3(program: &std::path::Path) -> Result<Speed> {
    let mut command = Command::new(program);
    command.arg(format!("--seconds={}", NS3_MS as f64 / 1000.0));
    command.arg("--algorithm=TcpCubic");
    let said: Value = serde_json::from_str(&shell::output(&mut command)?)?;
    let number = |name: &str| {
        let number = said[name].as_f64();
        number.with_context(|| format!("ns-3's program says nothing of `{name}`: {said}"))
    };
    Ok(Speed {
        simulated_ms: NS3_MS,
        wall_s: number("wall_seconds")?,
        events: number("events")?,
        bytes: number("bytes")?,
    })
}

/// On one thread and on two; the example itself refuses if their results differ.
fn of_dpb(example: &std::path::Path) -> Result<[Speed; 2]> {
    let mut command = Command::new(example);
    let said = shell::output(command.arg(DPB_MS.to_string()))?;
    let speeds: Result<Vec<Speed>> = said.lines().map(read).collect();
    match <[Speed; 2]>::try_from(speeds?) {
        Ok(speeds) => Ok(speeds),
        Err(other) => bail!("the example printed {} lines, not two", other.len()),
    }
}

/// A line of the example: `threads N: B bytes (…), sent again …, E events, S s, … events/s`.
fn read(line: &str) -> Result<Speed> {
    let (_, figures) = line.split_once(": ").unwrap_or_default();
    let number = |unit: &str| {
        let parts = figures.split(", ").chain(figures.split(" ("));
        let mut found = parts.filter_map(|part| part.strip_suffix(unit)?.trim().parse().ok());
        found
            .next()
            .with_context(|| format!("no number of{unit} in `{line}`"))
    };
    let speed = Speed {
        simulated_ms: DPB_MS,
        wall_s: number(" s")?,
        events: number(" events")?,
        bytes: number(" bytes")?,
    };
    ensure!(speed.wall_s > 0.0, "no time passed: `{line}`");
    Ok(speed)
}

/// The run with the median wall time.
fn median(mut runs: Vec<Speed>) -> Speed {
    runs.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
    runs.swap_remove(runs.len() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_example_is_read() {
        let line = "threads 2: 353045568 bytes (9.415 Gbit/s simulated), sent again 1, 3784345 events, 0.611 s, 6190955 events/s";
        let speed = read(line).expect("a line");
        assert_eq!(speed.bytes, 353_045_568.0);
        assert_eq!(speed.events, 3_784_345.0);
        assert_eq!(speed.wall_s, 0.611);
        assert_eq!(speed.slowness(), 0.611);
        assert!(read("threads 1: nothing").is_err());
    }
}
