//! The flags of the service `tasks`, and what comes of them.

use std::path::PathBuf;
use std::time::Duration;

use crate::exit::Failure;
use crate::plugin::Plugins;
use crate::tasks_service::{Quotas, TasksOptions};
use crate::{Globals, args};

const TASKS: &str = "Tests of clients";

/// Whether clients may run tests, and which.
#[derive(Debug, clap::Args)]
pub(super) struct TaskFlags {
    /// Let clients that have shown the token run dpb's tests on this machine (`dpb run BOX --on NAME=HOST:PORT` there); needs
    /// --credentials or --token-file
    #[arg(long, help_heading = TASKS)]
    tasks: bool,
    /// A plug-in's folder, or a folder with plug-ins, that clients may run
    #[arg(long, value_name = "FOLDER", help_heading = TASKS, requires = "tasks")]
    plugins: Vec<PathBuf>,
    /// Most memory of a client's test, by its estimate [default: as much as is free]
    #[arg(long, value_name = "SIZE", help_heading = TASKS, requires = "tasks", value_parser = args::size)]
    tasks_memory: Option<u64>,
    /// Most disk space that a client's test takes for data, by its estimate
    #[arg(long, value_name = "SIZE", help_heading = TASKS, value_parser = args::size, default_value = "16GiB")]
    tasks_disk: u64,
    /// Most time of a client's test, after which it is ended
    #[arg(long, value_name = "TIME", help_heading = TASKS, value_parser = args::duration, default_value = "1h")]
    tasks_time: Duration,
}

/// What the agent's other flags say for its tests.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) data_dir: PathBuf,
    pub(super) may_clear: bool,
    pub(super) idle_patience: Option<Duration>,
    /// True if anyone may connect.
    pub(super) is_open: bool,
}

impl TaskFlags {
    /// The service's options; `None` if there is no service.
    pub(super) fn options(
        &self,
        limits: Limits,
        globals: &Globals,
    ) -> Result<Option<TasksOptions>, Failure> {
        if !self.tasks {
            return Ok(None);
        }
        if limits.is_open {
            return Err(Failure::usage(
                "--tasks runs programs for clients, so they must show a token: give --credentials FOLDER (`dpb serve init` makes \
                 it), or on loopback --token-file FILE",
            ));
        }
        // Tests work in a folder of their own.
        let data_dir = std::path::absolute(&limits.data_dir).map_err(anyhow::Error::from)?;
        Ok(Some(TasksOptions {
            data_dir,
            plugins: Plugins::of(&self.plugins, globals.tasks)?,
            quotas: Quotas {
                memory_bytes: self.tasks_memory,
                disk_bytes: self.tasks_disk,
                seconds: self.tasks_time.as_secs().max(1),
            },
            may_clear: limits.may_clear,
            idle_patience: limits.idle_patience,
            globals: globals.clone(),
        }))
    }
}
