//! `dpb pushdown`: one table across a link, three ways, compared.

mod agents;
mod question;
mod show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;

use dpb_core::measure::provenance::is_part_of_run;
use dpb_core::measure::{Durability, Outcome, Record, Store};
use dpb_dbmods::compare::{
    Contender, Question, Scheme, SchemeSide, Sweep, SweepEnd, SweepEvent, fetch_shortage,
};
use dpb_dbmods::duckdb::Library;
use dpb_dbmods::duckdb::tpch_baseline;
use dpb_dbmods::schema::Schema;
use dpb_dbmods::service::client::Client;
use dpb_dbmods::service::protocol::{self, DataSet, TableInfo};
use dpb_dbmods::service::usage;
use dpb_dbmods::tpch;
use dpb_link::bulk::Transport;
use dpb_link::{Connect, Pass};

use self::question::Asked;
use super::agent::{LinkFlags, client_failure};
use super::data::Part;
use super::own_server::OwnServer;
use super::{data, serve};
use crate::args::{self, List};
use crate::bulk::Choice;
use crate::exit::Failure;
use crate::output::{self, Format, Progress};
use crate::report::published;
use crate::task::{
    Base, Cost, EndPass, Parameter, ServerEnd, Task, View, axis, charted, flags, listed,
    recorded_by_name,
};
use crate::{Globals, interrupt};

/// The task: predicate pushdown.
pub const TASK: Task = Task {
    name: "pushdown",
    summary: "predicate pushdown to a storage server with a DPU",
    example: "dpb pushdown --sf 1",
    apart: &[
        "out",
        "report",
        "explain",
        "prepare",
        "data_dir",
        "server",
        "token_file",
        "credentials",
    ],
    prepare: Some("--prepare"),
    shared_file: None,
    view: VIEW,
    check,
    cost,
    recorded,
    published: Some(published::pushdown),
    server_end: Some(ServerEnd {
        words: &["serve", "--until-stdin-closes", "--one-time-credentials"],
        pass: EndPass::Credentials,
        clears: Some("--allow-cold"),
    }),
};

const VIEW: View = View {
    lead: &[
        "scheme",
        "format",
        "platform",
        "table",
        "sf",
        "threads",
        "query",
        "selectivity",
        "link_gbps",
        "cold",
    ],
    series: &["scheme", "format"],
    sweeps: &[
        axis("threads", "threads", output::number),
        axis("selectivity", "selectivity", output::percent),
        axis(
            "link_gbps",
            "link, Gbit/s (0: bare loopback)",
            output::number,
        ),
    ],
    fixed: &["table", "sf", "query", "output", "cold"],
    metrics: &[
        charted("tuples_per_s", "tuples scanned per second", output::short),
        listed("run_s", "time of a run", output::short),
        listed("first_batch_s", "time to the first batch", output::short),
        listed("agent_cpu_s", "CPU time of the agent", output::short),
        listed("client_cpu_s", "CPU time of the client", output::short),
        listed(
            "agent_peak_bytes",
            "most memory of the agent",
            output::short,
        ),
        listed(
            "client_peak_bytes",
            "most memory of the client",
            output::short,
        ),
        listed(
            "client_added_bytes",
            "memory added at the client",
            output::short,
        ),
    ],
    base: Some(Base {
        side: "scheme",
        base: "fetch",
        metric: "tuples_per_s",
        own: &["format", "backend"],
    }),
};

// The groups of flags in the help.
const ASKED: &str = "The question";
const RUNS: &str = "The runs";
const LINK: &str = "The agent and the link";
const FILES: &str = "Files and output";

/// Scan a table across a link: ours, DuckDB at the storage, DuckDB here.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Schemes: fetch (the table's file crosses the link, DuckDB filters here), duckdb-at-dpu (DuckDB filters \
                  at the storage), dpb (our scan at the storage). All rows are compared before any time counts.\n\
                  Examples:\n  dpb pushdown --sf 10 --threads 16\n  \
                  dpb pushdown --selectivity 0.001,0.01,0.1 --threads 1,2 --link-gbps 10\n  \
                  dpb pushdown --table orders --where \"o_orderstatus = 'P'\"\n  \
                  dpb pushdown --where \"l_shipmode IN ('AIR', 'RAIL') AND l_comment LIKE '%special%requests%'\" \
                  --aggregate \"count(*)\"\n  dpb pushdown --server dpu:7400 --credentials client.credentials --bulk rdma"
)]
pub struct Args {
    /// TPC-H's scale factor; fractions work
    #[arg(long, value_name = "REAL", help_heading = ASKED, default_value_t = 1.0, allow_negative_numbers = true)]
    sf: f64,
    /// The table of TPC-H that is scanned
    #[arg(long, value_name = "NAME", help_heading = ASKED, value_parser = tpch::TABLES, default_value = "lineitem")]
    table: String,
    /// The number of threads that scan, at the agent or here, whoever filters [default: one a CPU]
    #[arg(long, value_name = "COUNTS", help_heading = RUNS, value_parser = args::thread_counts)]
    threads: Option<List<u64>>,
    /// A condition in SQL over the table's columns
    #[arg(long = "where", help_heading = ASKED, value_name = "SQL", conflicts_with_all = ["query", "selectivity"])]
    condition: Option<String>,
    /// The share of rows that qualify; dpb finds a condition for it
    #[arg(long, value_name = "SHARES", help_heading = ASKED, value_parser = args::fractions, default_value = "0.01", conflicts_with = "query")]
    selectivity: List<f64>,
    /// A TPC-H query's condition on lineitem: q1, q6, q14 or q19
    #[arg(long, value_name = "NAME", help_heading = ASKED)]
    query: Option<String>,
    /// The columns that come back
    #[arg(long, value_name = "TEXT", help_heading = ASKED, default_value = "*", conflicts_with = "aggregate")]
    columns: String,
    /// Send back aggregates instead of rows: sum, min, max, count, avg; or q1, q6 for that query's own, groups included
    #[arg(long, help_heading = ASKED, value_name = "SQL")]
    aggregate: Option<String>,
    /// Group the aggregates by up to two columns of few values, instead of a query's own groups
    #[arg(long, help_heading = ASKED, requires = "aggregate", value_name = "NAMES")]
    group_by: Option<String>,
    #[command(flatten, next_help_heading = LINK)]
    link: LinkFlags,
    /// The transport of rows and files: tcp; rdma (written into this side's memory, by the first device whose port is up);
    /// rdma/DEVICE. Where RDMA cannot be had, or the link has a pace, it is TCP, and the reason is said
    #[arg(long, help_heading = LINK, value_name = "TRANSPORT", default_value = "tcp")]
    bulk: Choice,
    /// Read storage anew in each run: drop the file from the page cache and the engines' own caches. An agent elsewhere must
    /// allow it (`dpb serve --allow-cold`)
    #[arg(long, help_heading = RUNS)]
    cold: bool,
    /// The schemes that take part
    #[arg(long, value_name = "NAMES", help_heading = RUNS, value_parser = args::words, default_value = "fetch,duckdb-at-dpu,dpb")]
    schemes: List<String>,
    /// The number of timed runs of each scheme; below 6 a number has no 95 % interval
    #[arg(long, value_name = "COUNT", help_heading = RUNS, value_parser = args::count, default_value = "7")]
    repeat: u64,
    /// The most rows that a batch has
    #[arg(long, value_name = "COUNT", help_heading = RUNS, value_parser = args::count, default_value = "16384")]
    batch_rows: u64,
    /// Memory for verified chunks at our own agents, and as much for DuckDB's buffers (at least 256 MB)
    #[arg(long, value_name = "SIZE", help_heading = RUNS, default_value = "4GiB", value_parser = args::size)]
    cache: u64,
    /// The backend that carries out dpb's scans at our own agents, by a name of `dpb list backends`; no model
    #[arg(long, value_name = "NAME", help_heading = RUNS, default_value = serve::BACKEND, conflicts_with = "server")]
    backend: String,
    /// The folder that data is kept in [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long, value_name = "FOLDER", help_heading = FILES)]
    data_dir: Option<PathBuf>,
    /// The file that records are appended to [default: records/pushdown.jsonl in the data directory]
    #[arg(long, value_name = "FILE", help_heading = FILES)]
    out: Option<PathBuf>,
    /// Draw what was found as one HTML page
    #[arg(long, help_heading = FILES, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Say how the scan went about the condition
    #[arg(long, help_heading = FILES)]
    explain: bool,
    /// Make the data that the sweep needs, and measure nothing
    #[arg(long, help_heading = FILES, conflicts_with = "server")]
    prepare: bool,
}

/// Checks that the question is understood, that the schemes are known, and that the scale factor is one.
fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    let args: Args = flags(matches)?;
    Asked::parse(&args, &schema(&args))?;
    schemes(&args.schemes)?;
    bytes_missing(&args).map(drop)
}

/// The columns of the table.
fn schema(args: &Args) -> Schema {
    tpch::schema(&args.table).expect("the parser of flags takes no other table")
}

/// Bytes of this task's table that are not in the data folder.
///
/// # Errors
/// A scale factor that is none.
fn bytes_missing(args: &Args) -> Result<u64, Failure> {
    let data_dir = args.data_dir.clone().unwrap_or_else(tpch::default_data_dir);
    tpch::bytes_to_make(&data_dir, args.sf, &[&args.table]).map_err(data::failure)
}

/// The condition in a record is what came of the flags, not what was given.
fn recorded(parameter: &Parameter, record: &Record) -> Option<String> {
    match parameter.name.as_str() {
        "sf" | "table" | "threads" | "selectivity" | "link_gbps" | "cold" => {
            recorded_by_name(parameter, record)
        }
        _ => None,
    }
}

/// Rows of the table, at rates that one core of a server reaches, and the data that is not there yet.
fn cost(matches: &ArgMatches) -> Cost {
    const START: Duration = Duration::from_secs(1);
    /// Seconds that a row takes to be made, for us and for DuckDB.
    const MAKING_S_PER_ROW: f64 = 8.0 / 6e6;
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let Ok(missing) = bytes_missing(&args) else {
        return Cost::default();
    };
    let rows = tpch::rows_expected(&args.table, args.sf) as f64;
    let (mut each_run, mut once) = (Duration::ZERO, Duration::ZERO);
    for scheme in schemes(&args.schemes).unwrap_or_default() {
        let rows_per_s = match scheme {
            Scheme::Dpb => 300e6,
            _ if scheme.needs_duckdb_here() => 15e6,
            _ => 50e6,
        };
        each_run += Duration::from_secs_f64(rows / rows_per_s);
        once += START + Duration::from_secs_f64(rows / rows_per_s);
    }
    let tests = (args.selectivity.0.len() * threads(&args).len()) as u32;
    if missing > 0 {
        once += Duration::from_secs_f64(rows * MAKING_S_PER_ROW);
    }
    Cost {
        once: once.saturating_mul(tests),
        each_run: each_run.saturating_mul(tests),
        memory_bytes: args.cache.min((rows * 100.0) as u64) * 2,
        disk_bytes: missing,
    }
}

/// Runs the sweep.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    let schema = schema(&args);
    let asked = Asked::parse(&args, &schema)?;
    let schemes = schemes(&args.schemes)?;
    let threads = threads(&args);
    let data_dir = args.data_dir.clone().unwrap_or_else(tpch::default_data_dir);
    if args.prepare {
        return make_data(&args, &data_dir, &schemes, globals);
    }

    // Lives as long as the connections to it.
    let _agents;
    let mut contenders;
    if let Some(server) = &args.link.agent.server {
        _agents = Vec::new();
        contenders = remote_contenders(&args, server, &schemes)?;
    } else {
        make_data(&args, &data_dir, &schemes, globals)?;
        (contenders, _agents) = local_contenders(&args, &data_dir, &schemes, &threads)?;
    }
    warn_of_sharing(&threads);
    say_ways(&args.bulk, &contenders);
    let data = data_set(&args)?;
    let questions = ask(asked, &mut contenders, &schema, &data)?;
    let out = match &args.out {
        Some(out) => Some(out.clone()),
        // A box keeps its records itself.
        None if is_part_of_run() => None,
        // Made here, so that a refusal above leaves no folder behind.
        None => {
            let folder = data_dir.join("records");
            std::fs::create_dir_all(&folder)
                .map_err(|error| Failure::check(format!("{}: {error}", folder.display())))?;
            Some(folder.join("pushdown.jsonl"))
        }
    };
    let mut store = match &out {
        Some(out) => Some(output::open_records(out, Durability::Process)?),
        None => None,
    };
    let plan = Sweep {
        sf: args.sf,
        data,
        questions,
        threads,
        repeat: args.repeat as usize,
        batch_rows: args.batch_rows as u32,
        cold: args.cold,
        link_bits_per_s: args.link.bits_per_s(),
        parameters: BTreeMap::from([("server".to_owned(), args.link.agent.name().to_owned())]),
    };
    carry_out(&plan, &mut contenders, &mut store, &args, globals)
}

/// Runs the plan, prints and keeps what it finds.
fn carry_out(
    plan: &Sweep,
    contenders: &mut [Contender],
    store: &mut Option<Store>,
    args: &Args,
    globals: &Globals,
) -> Result<(), Failure> {
    let mut table = show::table();
    let mut records: Vec<Record> = Vec::new();
    let mut plans: Vec<String> = Vec::new();
    let mut failures: Vec<String> = Vec::new();
    let mut progress: Option<Progress> = None;
    let mut tell = |event: SweepEvent<'_>| -> Result<(), Failure> {
        match event {
            SweepEvent::Running(done, all, what) => progress
                .get_or_insert_with(|| Progress::of_task(all, globals))
                .set(done, &what),
            SweepEvent::Tested(findings) => {
                let name = findings
                    .first()
                    .map_or_else(String::new, |finding| question_name(&finding.record));
                show::add(&mut table, findings, &name);
                for finding in findings {
                    if let Some(store) = store.as_mut() {
                        store
                            .append(&finding.record)
                            .map_err(|error| Failure::check(error.to_string()))?;
                    }
                    if let Outcome::Failed { reason } = &finding.record.outcome
                        && !failures.contains(reason)
                    {
                        failures.push(reason.clone());
                    }
                    if let (Scheme::Dpb, Some(run)) = (finding.scheme, finding.runs.last()) {
                        plans.push(format!("{name}:\n{}", run.explain));
                    }
                    records.push(finding.record.clone());
                }
            }
        }
        Ok(())
    };
    let ended = plan.run(contenders, interrupt::is_set, &mut tell);
    drop(progress);
    output::print_rows(globals.format(), &table, &records)?;
    if args.explain {
        output::note(&plans.join("\n"));
    }
    if let Some(path) = &args.report {
        output::write_whole(
            path,
            &crate::report::html(&records, &[], &globals.tasks.into()),
        )?;
        output::note(&format!("report: {}", path.display()));
    }
    if let (Format::Table, Some(store)) = (globals.format(), store) {
        output::note(&format!("records: {}", store.path().display()));
    }
    match ended? {
        SweepEnd::Done { failed: 0 } => match nothing_ran(&records) {
            Some(reasons) => Err(Failure::unavailable(reasons)),
            None => Ok(()),
        },
        SweepEnd::Done { failed } => Err(Failure::check(format!(
            "{failed} tests failed, and give no numbers: {}",
            failures.join("; ")
        ))),
        SweepEnd::Interrupted => Err(Failure::interrupted(
            "interrupted; what was finished is in the records",
        )),
    }
}

/// Why, if no scheme of any test could run.
fn nothing_ran(records: &[Record]) -> Option<String> {
    let reasons = records.iter().map(|record| match &record.outcome {
        Outcome::Unsupported { reason } => Some(reason.as_str()),
        _ => None,
    });
    let mut reasons = reasons.collect::<Option<Vec<&str>>>()?;
    reasons.dedup();
    Some(format!("no scheme can run here: {}", reasons.join("; ")))
}

/// What a test asks, short enough for a table.
fn question_name(record: &Record) -> String {
    match record.parameters.get("query") {
        Some(dpb_core::measure::Value::Text(name)) => name.clone(),
        _ => String::new(),
    }
}

fn schemes(words: &List<String>) -> Result<Vec<Scheme>, Failure> {
    let mut schemes = Vec::new();
    for word in words {
        let named: Vec<Scheme> = Scheme::ALL
            .into_iter()
            .filter(|scheme| scheme.name() == word)
            .collect();
        if named.is_empty() {
            return Err(Failure::usage(format!(
                "--schemes {word}: there is no such scheme; there are fetch, duckdb-at-dpu, dpb"
            )));
        }
        schemes.extend(named);
    }
    schemes.sort();
    schemes.dedup();
    Ok(schemes)
}

fn threads(args: &Args) -> Vec<u32> {
    match &args.threads {
        Some(list) => list.iter().map(|&n| n as u32).collect(),
        None => vec![cpus()],
    }
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Says before the run that threads outnumber cores.
fn warn_of_sharing(threads: &[u32]) {
    let most = threads.iter().copied().max().unwrap_or(1);
    if most > cpus() {
        output::note(&format!("{most} threads share {} cores", cpus()));
    }
}

/// Makes what is missing: our segment, and DuckDB's files if there is a DuckDB and a scheme needs them.
fn make_data(
    args: &Args,
    data_dir: &Path,
    schemes: &[Scheme],
    globals: &Globals,
) -> Result<(), Failure> {
    let needed = schemes.iter().any(|&scheme| scheme != Scheme::Dpb);
    let library = needed.then(Library::find).and_then(Result::ok);
    let ours = tpch::bytes_to_make(data_dir, args.sf, &[&args.table]).map_err(data::failure)?;
    let theirs = library.map_or(0, |library| {
        tpch_baseline::bytes_to_make(library, data_dir, args.sf, &args.table)
    });
    // Of both, before either is made.
    tpch::check_space(data_dir, args.sf, ours.saturating_add(theirs)).map_err(|error| {
        let mut failure = data::failure(error);
        if theirs > 0 {
            let way_out = ", and --schemes dpb does without DuckDB's copy";
            failure.message.push_str(way_out);
        }
        failure
    })?;
    if ours > 0 {
        data::make_apart(
            Part::Segment,
            library,
            data_dir,
            (args.sf, &args.table),
            globals,
        )?;
    }
    if theirs > 0 {
        data::make_apart(
            Part::Duckdb,
            library,
            data_dir,
            (args.sf, &args.table),
            globals,
        )?;
    }
    Ok(())
}

/// A connection a scheme, all to one agent elsewhere.
fn remote_contenders(
    args: &Args,
    server: &str,
    schemes: &[Scheme],
) -> Result<Vec<Contender>, Failure> {
    let pass = args.link.agent.pass()?;
    schemes
        .iter()
        .map(|&scheme| contender(args, scheme, server, &pass))
        .collect()
}

/// An agent and a connection a scheme.
fn local_contenders(
    args: &Args,
    data_dir: &Path,
    schemes: &[Scheme],
    threads: &[u32],
) -> Result<(Vec<Contender>, Vec<OwnServer<serve::Ready>>), Failure> {
    let threads_max = threads.iter().copied().max().unwrap_or(1);
    let (mut contenders, mut agents) = (Vec::new(), Vec::new());
    for &scheme in schemes {
        let agent = agents::start(data_dir, args, threads_max)?;
        let address = agent.ready.listening.to_string();
        let pass = Pass::Token(agent.token.clone());
        contenders.push(contender(args, scheme, &address, &pass)?);
        agents.push(agent);
    }
    Ok((contenders, agents))
}

/// One scheme's connection, or why it cannot take part.
fn contender(
    args: &Args,
    scheme: Scheme,
    address: &str,
    pass: &Pass,
) -> Result<Contender, Failure> {
    let bits_per_s = args.link.bits_per_s();
    // An agent that is to scan by itself need not load DuckDB.
    let duckdb = match scheme {
        Scheme::Dpb => 0,
        _ => protocol::CAPABILITY_DUCKDB,
    };
    let capabilities = protocol::CAPABILITY_FETCH | protocol::CAPABILITY_BULK | duckdb;
    let connect = Connect {
        pass: pass.clone(),
        link_bits_per_s: bits_per_s,
        ..Connect::new(address)
    };
    let mut client = Client::connect_with(connect, capabilities).map_err(client_failure)?;
    client.set_interrupted(interrupt::is_set);
    if let Some(offers) = args.bulk.offers() {
        client.use_bulk(offers).map_err(client_failure)?;
    }
    let table = describe(&mut client, args)?;
    let missing = unsupported(scheme, &client, &table, args);
    let side = match missing {
        Some(reason) => Err(reason),
        None => Ok(SchemeSide::new(scheme, client, table)),
    };
    Ok(Contender { scheme, side })
}

/// Says which transport large bodies have, where another one than TCP was asked for.
fn say_ways(asked: &Choice, contenders: &[Contender]) {
    if *asked == Choice::Tcp {
        return;
    }
    let sides = contenders.iter().filter_map(|c| c.side.as_ref().ok());
    let mut said: Vec<String> = sides
        .map(|side| match side.transport() {
            Transport::Ring {
                name,
                emulated_by: None,
            } => format!("bulk results come by {name}"),
            Transport::Ring {
                name,
                emulated_by: Some(by),
            } => format!("bulk results come by {name}, emulated by {by}"),
            Transport::Tcp { fallback } => format!(
                "bulk results come over TCP, not {}: {}",
                asked.to_text(),
                fallback.as_deref().unwrap_or("nobody said why")
            ),
        })
        .collect();
    said.sort();
    said.dedup();
    said.iter().for_each(|line| output::note(line));
}

/// The data set at the agents.
fn data_set(args: &Args) -> Result<DataSet, Failure> {
    DataSet::tpch(args.sf).map_err(|error| Failure::usage(format!("--sf: {error}")))
}

fn describe(client: &mut Client, args: &Args) -> Result<TableInfo, Failure> {
    let tables = client.describe(&data_set(args)?).map_err(client_failure)?;
    let Args { table, sf, .. } = args;
    let found = tables.into_iter().find(|info| info.schema.table == *table);
    found.ok_or_else(|| {
        Failure::unavailable(format!(
            "the agent has no {table} at scale factor {sf}: run `dpb data --sf {sf} --tables {table}` on its machine"
        ))
    })
}

/// Why a scheme cannot run here, and what to do.
fn unsupported(scheme: Scheme, client: &Client, table: &TableInfo, args: &Args) -> Option<String> {
    if scheme == Scheme::Dpb {
        return None;
    }
    if scheme.needs_duckdb_here()
        && let Err(missing) = Library::find()
    {
        return Some(missing.to_string());
    }
    if scheme.needs_duckdb_here()
        && let Some(shortage) = fetch_shortage(table, usage::memory_available_bytes())
    {
        return Some(format!(
            "{shortage}: end other programs, take a smaller --sf, or leave it out with --schemes duckdb-at-dpu,dpb"
        ));
    }
    if let Err(missing) = &client.agent().duckdb {
        return Some(format!("at the agent: {missing}"));
    }
    let file = match scheme {
        Scheme::FetchParquet => table.parquet_bytes,
        _ => table.duckdb_bytes,
    };
    match file {
        Some(_) => None,
        None => Some(format!(
            "the agent has no file of DuckDB's of {table} at this scale factor: run `dpb pushdown --table {table} --sf {sf} \
             --prepare` on its machine once",
            table = args.table,
            sf = args.sf,
        )),
    }
}

fn ask(
    asked: Asked,
    contenders: &mut [Contender],
    schema: &Schema,
    data: &DataSet,
) -> Result<Vec<Question>, Failure> {
    let side = contenders
        .iter_mut()
        .find_map(|contender| contender.side.as_mut().ok());
    match side {
        Some(side) => asked.questions(side.client(), schema, data),
        None => {
            let reasons = contenders.iter().filter_map(|c| c.side.as_ref().err());
            let reasons: Vec<&str> = reasons.map(String::as_str).collect();
            Err(Failure::unavailable(format!(
                "no scheme can run here: {}",
                reasons.join("; ")
            )))
        }
    }
}
