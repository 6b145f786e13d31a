//! `dpb serve`: the agent on the other side of a link, and its credentials.

mod index;
mod init;
mod operators;
mod tasks;

use std::fmt::Display;
use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpb_core::{Backend, OpSpec, WallClock};
use dpb_dbmods::index::service::IndexService;
use dpb_dbmods::query::{Output, Predicate, Query};
use dpb_dbmods::scan::operator::Scan;
use dpb_dbmods::schema::{Column, ColumnType, Schema};
use dpb_dbmods::service::agent::{AgentOptions, BindError, Pushdown};
use dpb_dbmods::service::protocol::AgentInfo;
use dpb_dbmods::table::{Segment, Values, open_regular};
use dpb_dbmods::tpch;
use dpb_link::echo::Echo;
use dpb_link::{Access, Agent, ServerCredentials, Service, TOKEN_BYTES, Token, TokenLength};
use serde::{Deserialize, Serialize};

use crate::bulk::Choice;
use crate::exit::Failure;
use crate::output::{self, Format};
use crate::tasks_service::{TasksOptions, TasksService};
use crate::{Globals, args, interrupt, operators_service};

/// Serve this machine's tables to `dpb pushdown`, its operators to `remote/HOST:PORT/BACKEND` and `remote-rdma/…`, with --tasks its tests to `dpb run --on`,
/// and an echo.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Memory stays below the cache plus 272 MB, whatever is asked. Once a client asks for DuckDB's scan, DuckDB \
                  may hold as much again as the cache for its buffers (at least 256 MB), and half of that for results. Operators of other machines (remote/…) take up to 105 MB a queue, and by remote-rdma/… 8 MiB more (--total-queues).\n\
                  With --credentials every connection is encrypted (TLS 1.3), and other machines may connect. What goes by \
                  RDMA (--bulk) is not: rows of `dpb pushdown --bulk rdma`, items and outputs of remote-rdma/HOST:PORT/BACKEND.\n\
                  With --tasks, which is off by default, clients that have shown the token run dpb's tests here, one at a time: as this \
                  user, in an empty folder, with a small environment and without this agent's credentials. What such a test is \
                  refused: files, devices and other machines as parameters, plug-ins that --plugins does not name, estimates \
                  beyond --tasks-memory, --tasks-disk and --tasks-time. A test ends when its client leaves.\n\
                  Examples:\n  dpb serve init ~/dpb-credentials\n  \
                  dpb serve --listen 10.0.0.2:7400 --credentials ~/dpb-credentials --tasks\n\
                  and on the other machine, with the file client.credentials of that folder:\n  \
                  dpb pushdown --server 10.0.0.2:7400 --credentials client.credentials\n  \
                  dpb run quick --on dpu=10.0.0.2:7400 --credentials client.credentials",
    args_conflicts_with_subcommands = true
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Where to listen; other than loopback needs credentials
    #[arg(long, default_value = "127.0.0.1:7400")]
    listen: String,
    /// Where data is kept [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Memory for verified chunks
    #[arg(long, default_value = "4GiB", value_parser = args::size)]
    cache: u64,
    /// The folder of credentials that `dpb serve init` has made: connections are encrypted, and clients must show its token
    #[arg(long, value_name = "FOLDER")]
    credentials: Option<PathBuf>,
    /// A file with the token that clients on this machine must show, 16 to 512 bytes; only its owner may read it
    #[arg(long, conflicts_with = "credentials")]
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
    /// Which way large results go to clients that ask for RDMA, and jobs of remote-rdma/… go both ways: tcp (never another), rdma (the
    /// first device whose port is up), rdma/DEVICE
    #[arg(long, value_name = "TRANSPORT", default_value = "rdma")]
    bulk: Choice,
    #[command(flatten)]
    operators: operators::OperatorFlags,
    #[command(flatten)]
    index: index::IndexFlags,
    #[command(flatten)]
    tasks: tasks::TaskFlags,
    /// For who starts an agent for itself: take the token from the first line of standard input, which no other user can read,
    /// end when standard input ends, and let the caches be dropped
    #[arg(long, hide = true, conflicts_with_all = ["token_file", "credentials"])]
    until_stdin_closes: bool,
    /// For who starts an agent elsewhere: encrypt with a key and a certificate that nobody keeps, and let no caches be dropped
    /// unless told
    #[arg(long, hide = true, requires = "until_stdin_closes")]
    one_time_credentials: bool,
}

/// What `dpb serve` does besides serving.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a key, a certificate and a token, and the file by which clients know them
    Init(init::Args),
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
    /// The services that it offers.
    pub services: Vec<Offered>,
    /// True if connections are encrypted.
    pub is_encrypted: bool,
    /// The fingerprint of the certificate, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// A service that an agent offers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Offered {
    /// The service's name.
    pub name: String,
    /// The version of the service's protocol.
    pub version: u16,
}

/// How long strangers' connections may be idle: they count towards `--max-connections`. Ours connect anew.
const IDLE_PATIENCE: Duration = Duration::from_secs(600);

/// The time that running scans have to end when standard input has ended.
const SCANS_END: Duration = Duration::from_secs(2);
/// The time that a running test has: it is ended by force after five seconds.
const TESTS_END: Duration = Duration::from_secs(8);

/// More than this of a token file is not read: the longest token, and space around it.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

static STDIN_CLOSED: AtomicBool = AtomicBool::new(false);

/// Serves until a signal.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    if let Some(Action::Init(args)) = args.action {
        return init::run(&args, globals);
    }
    interrupt::flag();
    args.index.pin()?;
    let data_dir = args.data_dir.clone().unwrap_or_else(tpch::default_data_dir);
    // Who starts an agent for itself keeps a connection for each scheme, and lets the others wait while one runs.
    let idle_patience = (!args.until_stdin_closes).then_some(IDLE_PATIENCE);
    let access = access(&args)?;
    let may_clear = args.allow_cold || args.until_stdin_closes && !args.one_time_credentials;
    let tasks = tasks::Limits {
        data_dir: data_dir.clone(),
        may_clear,
        idle_patience,
        is_open: matches!(access, Access::Anyone),
    };
    let tasks = args.tasks.options(tasks, globals)?;
    let operators = operators_service::service(
        globals.families,
        globals.operators,
        args.operators.quotas()?,
        args.bulk.duplex(),
    );
    let index = IndexService::new(args.index.options(&data_dir, idle_patience));
    let options = AgentOptions {
        listen: resolve(&args.listen)?,
        data_dir,
        tables: Vec::new(),
        cache_bytes: args.cache,
        access,
        threads_max: args.threads.map_or_else(threads_max, |threads| {
            threads.try_into().unwrap_or(u32::MAX)
        }),
        connections_max: args.max_connections.try_into().unwrap_or(u32::MAX),
        cold: may_clear,
        backend: open_backend(globals, &args.backend)?,
        say: |line| output::note(&format!("dpb serve: {line}")),
        clock: Arc::new(WallClock::default()),
        handshake_patience: Duration::from_secs(5),
        idle_patience,
        bulk: args.bulk.accepts(),
    };
    let fingerprint = match &options.access {
        Access::Credentials(credentials) => Some(credentials.fingerprint().to_string()),
        Access::Anyone | Access::Token(_) => None,
    };
    let ending = match tasks {
        Some(_) => TESTS_END,
        None => SCANS_END,
    };
    let (agent, info) =
        bind(options, operators, index, tasks).map_err(|error| cannot_start(&error))?;
    if args.until_stdin_closes {
        std::thread::spawn(move || watch_stdin(ending));
    }
    let offered = agent.services().iter().map(|service| Offered {
        name: service.name.clone(),
        version: service.version,
    });
    let ready = Ready {
        listening: agent.address(),
        agent: info,
        services: offered.collect(),
        is_encrypted: fingerprint.is_some(),
        fingerprint,
    };
    announce(&ready, globals.format())?;
    agent.run(&|| interrupt::is_set() || STDIN_CLOSED.load(Ordering::Relaxed));
    Ok(())
}

/// How an agent that cannot start ends the process.
fn cannot_start(error: &BindError) -> Failure {
    match error {
        BindError::Session(dpb_link::BindError::Listen { .. }) => Failure::unavailable(format!(
            "{error}; choose another address with --listen, port 0 for any that is free"
        )),
        _ => Failure::usage(error.to_string()),
    }
}

/// An agent with all services, and its description.
fn bind(
    options: AgentOptions,
    operators: Arc<dyn Service>,
    index: IndexService,
    tasks: Option<TasksOptions>,
) -> Result<(Agent, AgentInfo), BindError> {
    let session = options.session();
    let echo = Echo::new(options.idle_patience, &options.clock);
    let tasks = tasks.map(|tasks| TasksService::new(tasks, &options.clock));
    let pushdown = Arc::new(Pushdown::new(options)?);
    let mut services: Vec<Arc<dyn Service>> =
        vec![pushdown.clone(), Arc::new(echo), operators, Arc::new(index)];
    services.extend(tasks.map(|tasks| Arc::new(tasks) as Arc<dyn Service>));
    let agent = Agent::bind(session, services)?;
    let info = pushdown.info(agent.description());
    Ok((agent, info))
}

/// Who may connect.
fn access(args: &Args) -> Result<Access, Failure> {
    if args.until_stdin_closes {
        let wrong = |why: &dyn Display| Failure::usage(format!("standard input: {why}"));
        let token = Token::new(token_line()?).map_err(|error| wrong(&error))?;
        if !args.one_time_credentials {
            return Ok(Access::Token(token));
        }
        let credentials = ServerCredentials::one_time(token);
        return Ok(Access::Credentials(credentials.map_err(|error| {
            Failure::check(format!("no credentials can be made: {error}"))
        })?));
    }
    if let Some(path) = &args.token_file {
        return Ok(Access::Token(token_of(path)?));
    }
    let Some(dir) = &args.credentials else {
        return Ok(Access::Anyone);
    };
    let credentials = ServerCredentials::load(dir);
    let credentials =
        credentials.map_err(|error| Failure::usage(format!("--credentials: {error}")))?;
    Ok(Access::Credentials(credentials))
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
        limit: None,
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

/// Reads a token, see [`read_token`].
///
/// # Errors
/// As [`read_token`].
pub fn token_of(path: &Path) -> Result<Token, Failure> {
    let token = Token::new(read_token(path)?);
    token.map_err(|error| Failure::usage(format!("the token file {}: {error}", path.display())))
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
    match TOKEN_BYTES.contains(&token.len()) {
        true => Ok(token.to_vec()),
        false => Err(wrong(TokenLength(token.len()).to_string())),
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

fn announce(ready: &Ready, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return output::print_json(ready);
    }
    let services = ready.services.iter();
    let services: Vec<String> = services
        .map(|service| format!("{} (version {})", service.name, service.version))
        .collect();
    let encrypted = match ready.is_encrypted {
        true => "; connections are encrypted",
        false => "",
    };
    output::print(&format!(
        "dpb serve: listening on {}, offers {}{encrypted}\n",
        ready.listening,
        services.join(", ")
    ))
}

/// Waits until standard input ends, then gives running scans and tests a moment.
fn watch_stdin(ending: Duration) {
    let mut dropped = [0; 64];
    while matches!(std::io::stdin().lock().read(&mut dropped), Ok(1..)) {}
    STDIN_CLOSED.store(true, Ordering::Relaxed);
    std::thread::sleep(ending);
    // Whoever might have read this is gone.
    let _ = std::io::stdout().flush();
    std::process::exit(0);
}
