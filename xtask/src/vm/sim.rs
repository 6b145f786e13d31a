//! Two guests whose frames pass modelled cards: what goes in, what must come of it.

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

/// In this order.
const MODULES: [&str; 8] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
];
/// The system between the guests, beside its sockets.
const SYSTEM: &str = include_str!("sim.toml");
/// A round trip is held twice for the link's latency.
const ROUND_TRIP_MS_MIN: f64 = 10.0;
/// Frames of a transfer of 1 MiB, at least.
const FRAMES_MIN: u64 = (1 << 20) / 1448;
const LIMIT: Duration = Duration::from_secs(300);

/// What is missing here, and what to install.
pub(super) fn missing() -> Option<anyhow::Error> {
    if cfg!(not(target_arch = "x86_64")) {
        return Some(anyhow::anyhow!("the guests are x86-64"));
    }
    let programs = [
        (guest::QEMU, "qemu-system-x86"),
        ("busybox", "busybox-static"),
    ];
    let mut missing = programs
        .iter()
        .filter(|(name, _)| shell::find(name).is_none());
    let (name, package) = missing.next()?;
    Some(anyhow::anyhow!("no {name}: apt-get install {package}"))
}

/// Builds `dpb`, boots both guests, judges.
pub(super) fn run(kernel: &Kernel, all_is_built: bool) -> Result<()> {
    if let Some(missing) = missing() {
        return Err(missing);
    }
    let folder = shell::target_dir().join("vm/sim");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("system.toml"), SYSTEM)?;
    let image = image(kernel)?;
    let network = Network::start(&dpb(all_is_built)?, &folder)?;
    let start = |number: usize| {
        let mut flags = guest::machine();
        flags.extend([
            "-netdev".to_owned(),
            format!("stream,id=n0,server=off,addr.type=unix,addr.path=../{number}.socket"),
            "-device".to_owned(),
            format!("virtio-net-pci,netdev=n0,mac=02:00:00:00:00:0{number}"),
        ]);
        let own = folder.join(number.to_string());
        Guest::start(kernel, &image, &own, &format!("guest={number}"), &flags)
    };
    let guests = [start(1)?, start(2)?];
    let mut said = BTreeMap::new();
    for (number, guest) in guests.into_iter().enumerate() {
        let results = guest.finish(LIMIT)?;
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
    judge(&said, &network.end()?)
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
    println!(
        "two guests: the file came as it was sent, a round trip took {round_trip_ms} ms; {right} digests were right, {wrong} of {flipped} flipped frames were \
         found by digests"
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
    let busybox = shell::find("busybox").context("no busybox")?;
    image.program(&busybox, "bin/busybox")?;
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

/// The program under test.
fn dpb(all_is_built: bool) -> Result<PathBuf> {
    let mut cargo = shell::cargo();
    cargo.arg("build");
    match all_is_built {
        true => cargo.arg("--workspace"),
        false => cargo.args(["-p", "dpb-cli"]),
    };
    let built = programs::build(cargo.args(["--bin", "dpb"]), &["bin"])?;
    let dpb = built.into_iter().find(|program| program.name == "dpb");
    Ok(dpb.context("cargo built no dpb")?.path)
}

/// The network between the guests; killed when dropped.
struct Network {
    child: Child,
    folder: PathBuf,
}

impl Network {
    fn start(dpb: &Path, folder: &Path) -> Result<Self> {
        let sockets = ["1.socket", "2.socket"].map(|name| folder.join(name));
        for socket in sockets.iter().filter(|socket| socket.exists()) {
            // Of a run that was killed.
            fs::remove_file(socket)?;
        }
        let mut command = Command::new(dpb);
        command
            .args(["sim", "live", "system.toml", "--format", "json"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(fs::File::create(folder.join("record"))?);
        let mut network = Self {
            child: shell::start(&mut command)?,
            folder: folder.to_owned(),
        };
        let end = Instant::now() + LIMIT;
        while !sockets.iter().all(|socket| socket.exists()) {
            if let Some(status) = network.child.try_wait()? {
                bail!("dpb sim live ended with {status}");
            }
            ensure!(Instant::now() < end, "dpb sim live made no sockets");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(network)
    }

    /// Ends it as a person does; its record.
    fn end(mut self) -> Result<Value> {
        let pid = self.child.id().to_string();
        shell::run(Command::new("kill").args(["-TERM", &pid]))?;
        let status = self.child.wait()?;
        ensure!(status.success(), "dpb sim live ended with {status}");
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
