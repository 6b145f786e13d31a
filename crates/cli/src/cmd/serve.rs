//! `dpb serve`: the agent on the storage side.

use std::io::{Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpb_dbmods::pushdown::serve::{Agent, AgentOptions, BindError};
use dpb_dbmods::pushdown::wire::{self, AgentInfo};
use dpb_dbmods::tpch;
use serde::{Deserialize, Serialize};

use crate::bulk::Choice;
use crate::exit::Failure;
use crate::output::{self, Format};
use crate::{Globals, args, interrupt};

/// Serve this machine's tables to `dpb pushdown`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Memory stays below the cache plus 256 MB, whatever is asked. Once a client asks for DuckDB's scan, DuckDB \
                  may hold as much again as the cache for its buffers (at least 256 MB), and half of that for results.\n\
                  Example: dpb serve --listen 10.0.0.2:7400 --token-file ~/dpb.token"
)]
pub struct Args {
    /// Where to listen; other than loopback needs a token
    #[arg(long, default_value = "127.0.0.1:7400")]
    listen: String,
    /// Where data is kept [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Memory for verified chunks
    #[arg(long, default_value = "4GiB", value_parser = args::size)]
    cache: u64,
    /// A file with the token that clients must show
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Most threads that one scan gets [default: four a CPU, at least 64]
    #[arg(long, value_parser = args::threads)]
    threads: Option<u64>,
    /// Most connections at once
    #[arg(long, default_value = "64", value_parser = args::count)]
    max_connections: u64,
    /// Which way large results go to clients that ask for RDMA: tcp (never another), rdma (the first device whose port is
    /// up), rdma/DEVICE
    #[arg(long, value_name = "WAY", default_value = "rdma")]
    bulk: Choice,
    /// End when standard input ends: an agent must not outlive who started it
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

/// The line that says that an agent is ready.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    /// Where it listens.
    pub listening: SocketAddr,
    /// Its process and machine.
    pub agent: AgentInfo,
}

/// How long strangers' connections may be idle: they count towards `--max-connections`. Ours connect anew.
const IDLE_PATIENCE: Duration = Duration::from_secs(600);

static STDIN_CLOSED: AtomicBool = AtomicBool::new(false);

/// Serves until a signal.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    let agent = Agent::bind(AgentOptions {
        listen: resolve(&args.listen)?,
        data_dir: args.data_dir.unwrap_or_else(tpch::default_data_dir),
        cache_bytes: args.cache,
        token,
        threads_max: args
            .threads
            .map_or_else(threads_max, |threads| threads as u32),
        connections_max: args.max_connections as u32,
        handshake_patience: Duration::from_secs(5),
        // Who starts an agent for itself keeps a connection for each scheme, and lets the others wait while one runs.
        idle_patience: (!args.until_stdin_closes).then_some(IDLE_PATIENCE),
        bulk: args.bulk.accepts(),
    })
    .map_err(|error| match error {
        BindError::Listen { .. } => Failure::unavailable(format!(
            "{error}; choose another address with --listen, port 0 for any that is free"
        )),
        _ => Failure::usage(error.to_string()),
    })?;
    if args.until_stdin_closes {
        std::thread::spawn(watch_stdin);
    }
    announce(&agent, globals.format())?;
    agent.run(&|| interrupt::is_set() || STDIN_CLOSED.load(Ordering::Relaxed));
    Ok(())
}

/// Most threads of a scan, unless told: peers ask for threads, and many peers may ask.
fn threads_max() -> u32 {
    std::thread::available_parallelism().map_or(64, |cpus| (4 * cpus.get() as u32).max(64))
}

/// Reads a token: the file's first line.
///
/// # Errors
/// A file that cannot be read, or holds no usable token.
pub fn read_token(path: &Path) -> Result<Vec<u8>, Failure> {
    let text = std::fs::read(path).map_err(|error| {
        Failure::usage(format!(
            "cannot read the token file {}: {error}",
            path.display()
        ))
    })?;
    let token = text.trim_ascii().to_vec();
    if token.is_empty() || token.len() > wire::TOKEN_BYTES_MAX {
        return Err(Failure::usage(format!(
            "the token file {} holds {} bytes; a token has 1 to {}",
            path.display(),
            token.len(),
            wire::TOKEN_BYTES_MAX
        )));
    }
    Ok(token)
}

fn resolve(listen: &str) -> Result<SocketAddr, Failure> {
    let wrong = |why: &str| {
        Failure::usage(format!(
            "--listen {listen}: {why}; an address looks like 127.0.0.1:7400"
        ))
    };
    let mut addresses = listen
        .to_socket_addrs()
        .map_err(|error| wrong(&error.to_string()))?;
    addresses.next().ok_or_else(|| wrong("no such host"))
}

fn announce(agent: &Agent, format: Format) -> Result<(), Failure> {
    let ready = Ready {
        listening: agent.address(),
        agent: agent.info().clone(),
    };
    match format {
        Format::Json => output::print_json(&ready),
        _ => output::print(&format!("dpb serve: listening on {}\n", ready.listening)),
    }
}

/// Waits until standard input ends, then gives running scans a moment.
fn watch_stdin() {
    let mut dropped = [0; 64];
    while matches!(std::io::stdin().lock().read(&mut dropped), Ok(1..)) {}
    STDIN_CLOSED.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_secs(2));
    // Whoever might have read this is gone.
    let _ = std::io::stdout().flush();
    std::process::exit(0);
}
