//! The flags of the service `index`: an index that a client makes here, as the DPU's side of `dpb index`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::WallClock;
use dpb_core::measure::provenance::{allowed_cpus, memory_available_bytes};
use dpb_dbmods::index::service::IndexServiceOptions;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::args::{self, List};
use crate::exit::Failure;

const HEADING: &str = "Indexes";

/// What indexes of clients may take.
#[derive(Debug, clap::Args)]
pub(super) struct IndexFlags {
    /// Memory of all indexes that clients make (`dpb index --server`) [default: half of what is available]
    #[arg(long, value_name = "SIZE", help_heading = HEADING, value_parser = args::size)]
    index_memory: Option<u64>,
    /// Threads that work on requests to indexes at once [default: one a CPU]
    #[arg(long, value_name = "COUNT", help_heading = HEADING, value_parser = args::threads)]
    index_threads: Option<u64>,
    /// Keep this process on these cores
    #[arg(long, value_name = "NUMBERS", help_heading = HEADING, value_parser = args::numbers)]
    cores: Option<List<u64>>,
}

impl IndexFlags {
    /// Keeps the process on its cores, before it has other threads.
    pub(super) fn pin(&self) -> Result<(), Failure> {
        let Some(cores) = &self.cores else {
            return Ok(());
        };
        let mut set = CpuSet::new();
        for &core in cores {
            let known = usize::try_from(core)
                .ok()
                .filter(|&core| core < CpuSet::MAX_CPU);
            let core = known.ok_or_else(|| {
                Failure::usage(format!("--cores {core}: no machine has such a core"))
            })?;
            set.set(core);
        }
        sched_setaffinity(None, &set).map_err(|error| {
            Failure::usage(format!(
                "--cores: {error}; this process may use {:?}",
                allowed_cpus()
            ))
        })
    }

    /// The service's options.
    pub(super) fn options(
        &self,
        data_dir: &Path,
        idle_patience: Option<Duration>,
    ) -> IndexServiceOptions {
        let threads = self
            .index_threads
            .unwrap_or(allowed_cpus().len().max(1) as u64);
        IndexServiceOptions {
            memory_bytes_max: self
                .index_memory
                .unwrap_or_else(|| memory_available_bytes() / 2),
            folder: data_dir.join("indexes"),
            threads: threads.min(u64::from(u32::MAX)) as u32,
            idle_patience,
            clock: Arc::new(WallClock::default()),
        }
    }
}
