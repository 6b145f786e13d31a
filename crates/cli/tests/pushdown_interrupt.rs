//! `dpb pushdown` interrupted at many moments while it makes data.

mod support;

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use dpb_dbmods::duckdb::{Library, tpch_baseline};
use dpb_dbmods::tpch;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use support::{dpb, has_half_files, runs, text, wait_until};

const SF: f64 = 0.01;
/// Only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run over data that are not there; it does not end by itself for so many rounds.
fn start(dir: &Path, rounds: &str) -> Child {
    let mut command = dpb(&["pushdown", "--sf", "0.01", "--threads", "1"]);
    command
        .args(["--schemes", "duckdb-at-dpu,dpb", "--repeat", rounds])
        .args(["--out", "/dev/null", "--data-dir"])
        .arg(dir)
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Whether the process has its handler of SIGINT: before, a signal ends any process.
fn is_ready(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (Signal::INT.as_raw() - 1) & 1 == 1)
}

fn is_made(dir: &Path) -> bool {
    match Library::find() {
        Ok(library) => tpch_baseline::find(library, dir, SF, "lineitem").is_some(),
        Err(_) => tpch::find(dir, SF).table("lineitem").is_some(),
    }
}

/// The locks under a folder that somebody holds.
fn held_locks(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let held = |path: &Path| match path.is_dir() {
        true => held_locks(path),
        false => {
            let is_lock = path.to_string_lossy().ends_with(".lock");
            let is_held = is_lock && File::open(path).is_ok_and(|file| file.try_lock().is_err());
            is_held
                .then(|| path.display().to_string())
                .into_iter()
                .collect()
        }
    };
    entries.flat_map(|entry| held(&entry.path())).collect()
}

/// Whether a process that was started over this folder still runs.
fn has_processes(dir: &Path) -> bool {
    let dir = dir.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id() && runs(*pid))
        .filter_map(|pid| fs::read(format!("/proc/{pid}/cmdline")).ok())
        .any(|line| text(&line).contains(dir))
}

#[test]
fn interrupted_at_any_moment_it_says_so_and_leaves_nothing_half_made() {
    // Emulated, a run takes half a minute.
    let moments = if std::env::var_os("DPB_QEMU").is_some() {
        3
    } else {
        11
    };
    let folder = tempfile::tempdir().unwrap();
    let mut making = Duration::ZERO;
    for moment in 0..=moments {
        // Each in a folder of its own, so that what is left can be told apart.
        let dir = folder.path().join(format!("data-{moment}"));
        let child = start(&dir, "1000000");
        let pid = child.id();
        assert!(wait_until(PATIENCE, || is_ready(pid)));
        let started = Instant::now();
        if moment == 0 {
            assert!(wait_until(PATIENCE, || is_made(&dir)), "nothing is made");
            making = started.elapsed();
        } else {
            std::thread::sleep(making * moment / moments);
        }
        let signalled = Pid::from_child(&child);
        match moment % 2 {
            // A terminal's Ctrl-C goes to all its processes, `kill` to one.
            0 => kill_process_group(signalled, Signal::INT).unwrap(),
            _ => kill_process(signalled, Signal::INT).unwrap(),
        }
        let has_ended = wait_until(PATIENCE, || !runs(pid));
        if !has_ended {
            kill_process_group(signalled, Signal::KILL).unwrap();
        }
        let ended = child.wait_with_output().unwrap();
        let said = format!(
            "moment {moment} of {moments}, {making:?}: {}",
            text(&ended.stderr)
        );
        assert!(has_ended, "it hangs: {said}");
        assert_eq!(ended.status.code(), Some(130), "{said}");
        assert!(said.contains("interrupted"), "{said}");
        assert!(!has_half_files(&dir), "{said}");
        assert!(wait_until(PATIENCE, || !has_processes(&dir)), "{said}");
        assert_eq!(held_locks(&dir), [""; 0], "{said}");
    }
    // Over what the last one left.
    let dir = folder.path().join(format!("data-{moments}"));
    let ended = start(&dir, "1").wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
}
