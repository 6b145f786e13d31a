//! Two guests whose frames pass modelled cards, on the wall clock or on virtual time: what goes in, what must come of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::guest::{self, Guest};
use super::image::Image;
use super::kernel::{self, Kernel};
use crate::bench::programs;
use crate::shell;

/// In this order. The last is of a card whose model in QEMU does all at once, as virtual time needs it.
const MODULES: [&str; 9] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "e1000",
];
/// The system between the guests, beside its sockets.
const SYSTEM: &str = include_str!("sim.toml");
/// A round trip is held twice for the link's latency.
const ROUND_TRIP_MS_MIN: f64 = 10.0;
/// Bytes of the file, and of iperf3's transfer.
const TRANSFER_BYTES: u64 = 1 << 20;
/// Frames of both transfers, at least.
const FRAMES_MIN: u64 = 2 * TRANSFER_BYTES / 1448;
/// Neither a guest nor the system between them is silent for longer.
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// Versions of the interface of plugins, of which each QEMU since 7.2 takes one.
const PLUGIN_VERSIONS: [u32; 2] = [1, 2];
/// Guests on virtual time run each nanosecond of it.
const IN_STEPS_SILENCE_MAX: Duration = Duration::from_secs(1800);

/// The programs that are missing here, and what to install.
pub(super) fn missing() -> Option<anyhow::Error> {
    if cfg!(not(target_arch = "x86_64")) {
        return Some(anyhow::anyhow!("the guests are x86-64"));
    }
    let programs = [
        (guest::QEMU, "qemu-system-x86"),
        ("busybox", "busybox-static"),
        ("iperf3", "iperf3"),
    ];
    let mut missing = programs
        .iter()
        .filter(|(name, _)| shell::find(name).is_none());
    let (name, package) = missing.next()?;
    Some(anyhow::anyhow!("no {name}: apt-get install {package}"))
}

/// Builds `dpb`, boots both guests on the wall clock, judges.
pub(super) fn run(kernel: &Kernel, all_is_built: bool) -> Result<()> {
    if let Some(missing) = missing() {
        return Err(missing);
    }
    let folder = shell::target_dir().join("vm/sim");
    let machine = |number: usize, _: &str| {
        let flags = format!(
            "-netdev stream,id=n0,server=off,addr.type=unix,addr.path=../{number}.socket \
             -device virtio-net-pci,netdev=n0,mac={}",
            mac(number)
        );
        Ok(Machine {
            flags: [guest::machine(), words(&flags)].concat(),
            kernel_words: String::new(),
        })
    };
    let setup = Setup {
        system: SYSTEM,
        awaits: "running with 2 real host(s)",
        silence_max: SILENCE_MAX,
        machine: &machine,
    };
    let (said, record) = setup.run(kernel, &dpb(all_is_built)?, &folder)?;
    judge(&said, &record)
}

/// The same on virtual time, twice: the runs must be the same, frame by frame, and in all that the guests say.
pub(super) fn run_in_steps(kernel: &Kernel) -> Result<()> {
    if let Some(missing) = missing() {
        return Err(missing);
    }
    let folder = shell::target_dir().join("vm/lockstep");
    fs::create_dir_all(&folder)?;
    let dpb = dpb(false)?;
    make_plugin(&dpb, &folder)?;
    let system = SYSTEM.replace(
        ".socket\"",
        &format!(".socket\"\nlockstep_us = {QUANTUM_US}"),
    );
    let setup = Setup {
        system: &system,
        awaits: "guest `2`: ",
        silence_max: IN_STEPS_SILENCE_MAX,
        machine: &in_steps,
    };
    let mut traces = Vec::new();
    for _ in 0..2 {
        let began = Instant::now();
        let (said, record) = setup.run(kernel, &dpb, &folder)?;
        judge(&said, &record)?;
        let trace = record["check"]["digest"].as_str();
        let trace = trace.with_context(|| format!("no trace: {record}"))?;
        println!("traces {trace}, {:.0} s", began.elapsed().as_secs_f64());
        traces.push((trace.to_owned(), lasting(&record), said));
    }
    ensure!(
        traces[0] == traces[1],
        "two runs were not the same: {traces:?}"
    );
    println!("two runs on virtual time were the same, frame by frame");
    Ok(())
}

/// Compiles the plugin as this QEMU takes it.
fn make_plugin(dpb: &Path, folder: &Path) -> Result<()> {
    let (plugin, source) = (folder.join("lockstep.so"), folder.join("lockstep.c"));
    let text = shell::output(Command::new(dpb).args(["sim", "plugin"]))?;
    fs::write(&source, text)?;
    let mut said = String::new();
    for version in PLUGIN_VERSIONS {
        let flags = "-O2 -Wall -Wextra -Werror -shared -fPIC -o";
        shell::run(
            Command::new("cc")
                .arg(format!("-DVERSION={version}"))
                .args(words(flags))
                .args([&plugin, &source]),
        )?;
        let mut probe = Command::new(guest::QEMU);
        probe
            .args(words("-accel tcg -machine none -nodefaults -display none"))
            .arg("-plugin")
            .arg(&plugin)
            .stdin(Stdio::null());
        // It wants parameters, and says so once its version is right.
        said = String::from_utf8_lossy(&probe.output()?.stderr).into_owned();
        if said.contains("lockstep: ") {
            return Ok(());
        }
    }
    bail!("{} does not take the plugin: {said}", guest::QEMU);
}

/// The counts that do not depend on when QEMU's main thread sees that a guest has switched itself off.
fn lasting(record: &Value) -> BTreeMap<String, Value> {
    let counts = record["counts"].as_object();
    let all = counts.into_iter().flatten();
    let of_the_end = ["events", ": quanta", ": lost at the guest"];
    all.filter(|(name, _)| !of_the_end.iter().any(|end| name.ends_with(end)))
        .map(|(name, count)| (name.clone(), count.clone()))
        .collect()
}

/// The quantum of guests on virtual time: the latency of their link.
const QUANTUM_US: u64 = 5000;

/// The machine of a guest on virtual time: that which `dpb sim live` says. The guest runs in a folder below that of its sockets.
fn in_steps(number: usize, said: &str) -> Result<Machine> {
    let start = format!("guest `{number}`: {} ", guest::QEMU);
    let flags = said.lines().find_map(|line| line.strip_prefix(&start));
    let missing = || format!("dpb sim live says no flags of guest {number}: {said:?}");
    let (flags, kernel_words) = flags
        .and_then(|flags| flags.split_once(" -append '"))
        .with_context(missing)?;
    let kernel_words = kernel_words.strip_suffix(" ...'").with_context(missing)?;
    let flags = flags
        .replace("./lockstep.so,control=", "../lockstep.so,control=../")
        .replace("addr.path=", "addr.path=../")
        .replace("MAC", &mac(number));
    Ok(Machine {
        flags: words(&flags),
        kernel_words: format!("{kernel_words} busy"),
    })
}

fn mac(number: usize) -> String {
    format!("02:00:00:00:00:0{number}")
}

fn words(flags: &str) -> Vec<String> {
    flags.split_whitespace().map(str::to_owned).collect()
}

/// The words of both guests, and the record of the network between them.
type Said = (BTreeMap<String, String>, Value);

/// The machine of a guest.
struct Machine {
    /// QEMU's flags.
    flags: Vec<String>,
    /// Words of the kernel's command line.
    kernel_words: String,
}

/// The way in which both guests run.
struct Setup<'a> {
    /// The system between them.
    system: &'a str,
    /// Words that `dpb sim live` says when guests may come.
    awaits: &'a str,
    silence_max: Duration,
    /// The machine, by the guest's number and by what `dpb sim live` has said.
    machine: &'a dyn Fn(usize, &str) -> Result<Machine>,
}

impl Setup<'_> {
    /// Boots both guests behind the system, and waits for their ends.
    fn run(&self, kernel: &Kernel, dpb: &Path, folder: &Path) -> Result<Said> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("system.toml"), self.system)?;
        let image = image(kernel)?;
        let network = Network::start(dpb, folder, self.awaits)?;
        let network_said = network.said()?;
        let start = |number: usize| {
            let own = folder.join(number.to_string());
            let machine = (self.machine)(number, &network_said)?;
            let words = format!("{} guest={number}", machine.kernel_words);
            Guest::start(kernel, &image, &own, &words, &machine.flags)
        };
        let guests = [start(1)?, start(2)?];
        let mut said = BTreeMap::new();
        for (number, guest) in guests.into_iter().enumerate() {
            let results = guest.finish(self.silence_max)?;
            ensure!(
                results.lines().any(|line| line.trim() == "end"),
                "guest {} did not get to its end: {results:?}",
                number + 1
            );
            let lines = results
                .lines()
                .filter_map(|line| line.trim().split_once(' '));
            for (name, value) in lines {
                let name = format!("{name} {}", number + 1);
                said.insert(name, value.trim().to_owned());
            }
        }
        Ok((said, network.end()?))
    }
}

fn judge(said: &BTreeMap<String, String>, record: &Value) -> Result<()> {
    let of = |name: &str| {
        said.get(name)
            .with_context(|| format!("no {name}: {said:?}"))
    };
    ensure!(
        of("sent 2")? == of("got 1")?,
        "the file came with other bytes: {said:?}"
    );
    let round_trip_ms: f64 = of("ping 2")?.parse()?;
    ensure!(
        round_trip_ms >= ROUND_TRIP_MS_MIN,
        "a round trip of {round_trip_ms} ms, where the links take {ROUND_TRIP_MS_MIN} ms"
    );
    let count = |name: &str| {
        let count = record["counts"][name].as_u64();
        count.with_context(|| format!("no {name}: {record}"))
    };
    let (right, wrong, flipped) = (
        count("digests_right")?,
        count("digests_wrong")?,
        count("flipped")?,
    );
    ensure!(right >= FRAMES_MIN, "{right} digests were right");
    ensure!(
        wrong > 0 && flipped >= wrong,
        "{flipped} frames had flipped bits, and {wrong} digests were wrong"
    );
    for name in ["sums 1", "sums 2"] {
        ensure!(of(name)? == "0", "a flipped bit reached a guest: {said:?}");
    }
    let iperf3: Value = serde_json::from_str(of("iperf3 2")?)?;
    let (sent, received) = (&iperf3["end"]["sum_sent"], &iperf3["end"]["sum_received"]);
    ensure!(
        sent["bytes"] == TRANSFER_BYTES,
        "iperf3 sent something else than {TRANSFER_BYTES} bytes: {iperf3}"
    );
    let bits_per_second = received["bits_per_second"].as_f64();
    let bits_per_second = bits_per_second.with_context(|| format!("no throughput: {iperf3}"))?;
    println!(
        "two guests: the file came as it was sent, a round trip took {round_trip_ms} ms, iperf3 saw {:.2} Mbit/s on the guests' clock and sent {} segments again; \
         {right} digests were right, {wrong} of {flipped} flipped frames were found by digests",
        bits_per_second / 1e6,
        sent["retransmits"]
    );
    let late = |quantile: &str| {
        let median = &record["summary"][format!("release_late_ns_{quantile}")]["median"];
        Some(median.as_f64()? / 1e3)
    };
    if let (Some(p50), Some(p99)) = (late("p50"), late("p99")) {
        println!("emulated: releases were late by {p50:.0} µs (p50), {p99:.0} µs (p99)");
    }
    Ok(())
}

fn image(kernel: &Kernel) -> Result<Image> {
    let mut image = Image::default();
    for folder in ["proc", "sys", "dev", "tmp", "bin"] {
        image.folder(folder);
    }
    image.file("init", include_bytes!("sim.sh"));
    for name in ["busybox", "iperf3"] {
        let program = shell::find(name).with_context(|| format!("no {name}"))?;
        image.program(&program, &format!("bin/{name}"))?;
    }
    let mut order = String::new();
    for name in MODULES {
        // What is built into the kernel is no module.
        if let Some(module) = kernel.module(name) {
            image.file(&format!("modules/{name}.ko"), kernel::read_module(&module)?);
            order += &format!("{name}\n");
        }
    }
    image.file("modules/order", order);
    Ok(image)
}

/// The program under test. With `all_is_built` it is what `cargo test --workspace` has built: for `cargo build` the crates have other
/// features, and would be built once more.
fn dpb(all_is_built: bool) -> Result<PathBuf> {
    let mut cargo = shell::cargo();
    let kinds: &[&str] = match all_is_built {
        true => {
            cargo.args(["test", "--workspace"]);
            &["bin", "test"]
        }
        false => {
            cargo.args(["build", "-p", "dpb-cli", "--bin", "dpb"]);
            &["bin"]
        }
    };
    let built = programs::build(&mut cargo, kinds)?;
    let dpb = built.into_iter().find(|program| program.name == "dpb");
    Ok(dpb.context("cargo built no dpb")?.path)
}

/// The network between the guests; killed when dropped.
struct Network {
    child: Child,
    folder: PathBuf,
}

impl Network {
    fn start(dpb: &Path, folder: &Path, awaits: &str) -> Result<Self> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            // Of a run that was killed.
            if path.to_string_lossy().contains(".socket") {
                fs::remove_file(path)?;
            }
        }
        let mut command = Command::new(dpb);
        command
            .args(["sim", "live", "system.toml", "--format", "json"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(fs::File::create(folder.join("record"))?)
            .stderr(fs::File::create(folder.join("said"))?);
        let mut network = Self {
            child: shell::start(&mut command)?,
            folder: folder.to_owned(),
        };
        let end = Instant::now() + SILENCE_MAX;
        loop {
            let said = network.said()?;
            // A line that is whole.
            if said.contains(awaits) && said.ends_with('\n') {
                return Ok(network);
            }
            if let Some(status) = network.child.try_wait()? {
                bail!("dpb sim live ended with {status}: {said}");
            }
            ensure!(Instant::now() < end, "dpb sim live made no sockets: {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// All that it has said so far.
    fn said(&self) -> Result<String> {
        fs::read_to_string(self.folder.join("said")).context("what dpb sim live says")
    }

    /// Ends it as a person does; its record.
    fn end(mut self) -> Result<Value> {
        // With guests on virtual time it ends with them.
        if self.child.try_wait()?.is_none() {
            let pid = self.child.id().to_string();
            shell::run(Command::new("kill").args(["-TERM", &pid]))?;
        }
        let status = self.child.wait()?;
        let said = self.said()?;
        ensure!(status.success(), "dpb sim live ended with {status}: {said}");
        let record = fs::read_to_string(self.folder.join("record"))?;
        serde_json::from_str(&record).context(record)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // One that has ended by itself is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
