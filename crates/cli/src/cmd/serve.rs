//! `dpb serve`: the agent on the storage side.

use std::fmt::Display;
use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpb_core::{Backend, OpSpec, WallClock};
use dpb_dbmods::query::{Output, Predicate, Query};
use dpb_dbmods::scan::operator::Scan;
use dpb_dbmods::schema::{Column, ColumnType, Schema};
use dpb_dbmods::service::agent::{Agent, AgentOptions, BindError};
use dpb_dbmods::service::protocol::{self, AgentInfo};
use dpb_dbmods::table::{Segment, Values, open_regular};
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
                  Nothing is encrypted: the token, queries and rows cross the network in clear. On a network that strangers \
                  share, listen on loopback or inside a tunnel (ssh -L, WireGuard).\n\
                  Examples:\n  (umask 077; head -c 32 /dev/urandom | base64 > ~/dpb.token)\n  \
                  dpb serve --listen 10.0.0.2:7400 --token-file ~/dpb.token"
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
    /// A file with the token that clients must show, 16 to 512 bytes; only its owner may read it
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Most threads of all of dpb's scans together, each at least one, and of DuckDB beside them [default: four a CPU, at
    /// least 64]
    #[arg(long, value_parser = args::threads)]
    threads: Option<u64>,
    /// The backend that carries out dpb's scans, by a name of `dpb list backends`. A model has a time of its own and cannot serve
    #[arg(long, default_value = BACKEND)]
    backend: String,
    /// Most connections at once, up to 128
    #[arg(long, default_value = "64", value_parser = args::count)]
    max_connections: u64,
    /// Let clients drop files from the caches (`dpb pushdown --cold`), which slows all others
    #[arg(long)]
    allow_cold: bool,
    /// Which way large results go to clients that ask for RDMA: tcp (never another), rdma (the first device whose port is
    /// up), rdma/DEVICE
    #[arg(long, value_name = "TRANSPORT", default_value = "rdma")]
    bulk: Choice,
    /// For who starts an agent for itself: take the token from the first line of standard input, which no other user can read,
    /// end when standard input ends, and let the caches be dropped
    #[arg(long, hide = true, conflicts_with = "token_file")]
    until_stdin_closes: bool,
}

/// The backend of agents that are not told another.
pub const BACKEND: &str = "cpu/best";

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

/// More than this of a token file is not read: the longest token, and space around it.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

static STDIN_CLOSED: AtomicBool = AtomicBool::new(false);

/// Serves until a signal.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    let token = match args.until_stdin_closes {
        true => Some(token_line()?),
        false => args.token_file.as_deref().map(read_token).transpose()?,
    };
    let agent = Agent::bind(AgentOptions {
        listen: resolve(&args.listen)?,
        data_dir: args.data_dir.unwrap_or_else(tpch::default_data_dir),
        tables: Vec::new(),
        cache_bytes: args.cache,
        token,
        threads_max: args.threads.map_or_else(threads_max, |threads| {
            threads.try_into().unwrap_or(u32::MAX)
        }),
        connections_max: args.max_connections.try_into().unwrap_or(u32::MAX),
        cold: args.allow_cold || args.until_stdin_closes,
        backend: open_backend(globals, &args.backend)?,
        say: |line| output::note(&format!("dpb serve: {line}")),
        clock: Arc::new(WallClock::default()),
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

/// The backend called `name`, if it can scan.
fn open_backend(globals: &Globals, name: &str) -> Result<Arc<dyn Backend>, Failure> {
    let unknown = |why| Failure::usage(format!("--backend: {why} (see `dpb list backends`)"));
    let backend: Arc<dyn Backend> = globals.families.open(name).map_err(unknown)?.into();
    let broke = |why: &dyn Display| Failure::check(format!("no table to try {name} on: {why}"));
    let schema = Schema {
        table: "trial".to_owned(),
        columns: vec![Column {
            name: "number".to_owned(),
            ty: ColumnType::Integer,
        }],
    };
    let row = Segment::temporary(schema, &[Values::Numbers(vec![1])]);
    let all = Query {
        table: "trial".to_owned(),
        predicate: Predicate::Constant(Some(true)),
        output: Output::Rows(vec![0]),
    };
    let scan = Scan::new(Arc::new(row.map_err(|error| broke(&error))?), all);
    let scan = scan.map_err(|error| broke(&error))?;
    let limits = backend.limits(&OpSpec::from(scan));
    limits.map_err(|why| Failure::unavailable(format!("--backend {name}: {why}")))?;
    Ok(backend)
}

/// Most threads of a scan, unless told: peers ask for threads, and many peers may ask.
fn threads_max() -> u32 {
    std::thread::available_parallelism().map_or(64, |cpus| (4 * cpus.get() as u32).max(64))
}

/// Reads a token: what the file holds, without the space around it.
///
/// # Errors
/// A file that cannot be read, that others may read, or that holds no usable token.
pub fn read_token(path: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |why: String| Failure::usage(format!("the token file {}: {why}", path.display()));
    let file = open_regular(path).map_err(|error| wrong(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(wrong(format!(
            "others than its owner may use it (its mode is {mode:03o}): chmod 600 {}",
            path.display()
        )));
    }
    let mut text = Vec::new();
    file.take(TOKEN_FILE_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(|error| wrong(error.to_string()))?;
    let token = text.trim_ascii();
    match protocol::TOKEN_BYTES.contains(&token.len()) {
        true => Ok(token.to_vec()),
        false => Err(wrong(BindError::Token(token.len()).to_string())),
    }
}

/// The first line of standard input.
fn token_line() -> Result<Vec<u8>, Failure> {
    let mut line = Vec::new();
    let mut input = std::io::stdin().lock().take(TOKEN_FILE_BYTES_MAX);
    match input.read_until(b'\n', &mut line) {
        Ok(_) => Ok(line.trim_ascii().to_vec()),
        Err(error) => Err(Failure::usage(format!("standard input: {error}"))),
    }
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
