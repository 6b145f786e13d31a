//! Traces of a system's first run: frames as a capture, and what each part did as a timeline.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use dpb_sim::system::trace::Sink;
use dpb_sim::system::{System, Trace};

use crate::args::{self, List};
use crate::exit::Failure;

/// Files that trace the first run.
#[derive(Debug, Default, clap::Args)]
pub(super) struct TraceFlags {
    /// Write the frames of the first run's ports to this file, as pcapng with simulated time in nanoseconds
    #[arg(long, value_name = "FILE", help_heading = "Traces")]
    pcapng: Option<PathBuf>,
    /// Capture these ports alone: a host's name, or SWITCH: PART
    #[arg(long, value_name = "NAMES", help_heading = "Traces", requires = "pcapng", value_parser = args::words)]
    ports: Option<List<String>>,
    /// Write what each part of the first run did, and when, to this file, as JSON that Perfetto opens
    #[arg(long, value_name = "FILE", help_heading = "Traces")]
    timeline: Option<PathBuf>,
}

/// The traces of a run that goes on.
#[derive(Default)]
pub(super) struct Traces {
    trace: Option<Arc<Mutex<Trace>>>,
    files: Vec<PathBuf>,
}

impl TraceFlags {
    /// Refuses traces of several systems, and what has no order to be written in.
    pub(super) fn check(&self, systems: usize, threads: u64) -> Result<(), Failure> {
        if self.pcapng.is_none() && self.timeline.is_none() {
            return Ok(());
        }
        if systems > 1 {
            return Err(Failure::usage(format!(
                "--pcapng and --timeline are of one run of one system, not of {systems}: name one, with one value for each setting"
            )));
        }
        match threads > 1 {
            true => Err(Failure::usage(
                "traces are written in the order of virtual time, on one thread: leave --threads out",
            )),
            false => Ok(()),
        }
    }

    /// Begins to observe a system that has not run.
    pub(super) fn begin(&self, system: &mut System) -> Result<Traces, Failure> {
        let files = self.pcapng.iter().chain(&self.timeline).cloned().collect();
        let mut traces = Traces { trace: None, files };
        if traces.files.is_empty() {
            system.observe(true, None);
            return Ok(traces);
        }
        let tracks = system.tracks();
        let mut trace = Trace::default();
        if let Some(path) = &self.pcapng {
            let mut captured = tracks.clone();
            let wanted: Vec<&String> = self.ports.iter().flatten().collect();
            for &port in &wanted {
                if !tracks.iter().any(|it| it.interface.as_ref() == Some(port)) {
                    let known: Vec<&str> = tracks
                        .iter()
                        .filter_map(|it| it.interface.as_deref())
                        .collect();
                    return Err(Failure::usage(format!(
                        "--ports: there is no port `{port}`; there are {}",
                        known.join(", ")
                    )));
                }
            }
            let is_wanted = |name: &String| wanted.is_empty() || wanted.contains(&name);
            for track in &mut captured {
                track.interface = track.interface.take().filter(is_wanted);
            }
            let begun = trace.capture_to(create(path)?, &captured);
            begun.map_err(|why| unwritable(path, &why))?;
        }
        if let Some(path) = &self.timeline {
            let begun = trace.timeline_to(create(path)?, &tracks);
            begun.map_err(|why| unwritable(path, &why))?;
        }
        let trace = Arc::new(Mutex::new(trace));
        system.observe(true, Some(&trace));
        traces.trace = Some(trace);
        Ok(traces)
    }
}

fn create(path: &Path) -> Result<Sink, Failure> {
    let file = File::create(path).map_err(|why| unwritable(path, &why))?;
    Ok(Box::new(BufWriter::new(file)))
}

fn unwritable(path: &Path, why: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot write {}: {why}", path.display()))
}

impl Traces {
    /// Writes what is left.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let Some(trace) = &self.trace else {
            return Ok(());
        };
        let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.finish().map_err(|why| {
            let files: Vec<String> = self
                .files
                .iter()
                .map(|it| it.display().to_string())
                .collect();
            Failure::check(format!("cannot write {}: {why}", files.join(" and ")))
        })
    }
}
