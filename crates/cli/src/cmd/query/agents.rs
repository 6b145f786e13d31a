//! A scan at agents: one that has the table, or several that have parts of it.

use std::ops::ControlFlow;

use arrow_schema::SchemaRef;
use dpb_core::printable;
use dpb_dbmods::query::Query;
use dpb_dbmods::scan;
use dpb_dbmods::service::client::{Client, ClientError, scan_parts};
use dpb_dbmods::service::protocol::{CAPABILITY_PARTIALS, DataSet, TableInfo};
use dpb_dbmods::{ScanRequest, Schema};
use dpb_link::Connect;

use super::output::{Rows, is_over, reader_has_left};
use super::{Args, not_understood};
use crate::cmd::agent::{client_failure, pass};
use crate::exit::Failure;

/// Characters of an agent's words, and of a table's name, that are shown.
const WORDS_MAX: usize = 4000;

/// Scans at the agents that were named. Gives each one's plan in words, once the rows are written.
pub(super) fn scan(
    args: &Args,
    name: &str,
    open: impl FnOnce(&SchemaRef) -> Result<Rows, Failure>,
) -> Result<Vec<String>, Failure> {
    if let Some((at, twice)) =
        (args.server.iter().enumerate()).find(|(at, address)| args.server[..*at].contains(address))
    {
        return Err(Failure::usage(format!(
            "--server names {twice} twice, as number {}: its rows would count twice",
            at + 1
        )));
    }
    let pass = pass(args.credentials.as_deref(), args.token_file.as_deref())?;
    let mut clients = Vec::with_capacity(args.server.len());
    let mut chosen: Option<TableInfo> = None;
    for address in &args.server {
        let connect = Connect {
            pass: pass.clone(),
            ..Connect::new(address)
        };
        let mut client =
            Client::connect_with(connect, CAPABILITY_PARTIALS).map_err(client_failure)?;
        client.set_interrupted(is_over);
        let found = table(args, name, address, &mut client)?;
        match &chosen {
            Some(first) if first.schema != found.schema => {
                return Err(Failure::usage(format!(
                    "the agents at {} and {address} have tables {name} of other columns, which are no parts of one table",
                    args.server[0]
                )));
            }
            Some(_) => {}
            None => chosen = Some(found),
        }
        clients.push(client);
    }
    let TableInfo { data, schema, .. } = chosen.expect("there is an address at least");
    if clients.len() > 1 && data.scale_factor().is_some() {
        return Err(Failure::usage(format!(
            "every agent has all of {} in {data}, and several --server have parts of one table: name one agent, or give them parts \
             with `dpb serve --table`",
            schema.table
        )));
    }
    let query = Query::parse(&schema, &args.statement).map_err(|error| not_understood(&error))?;
    ask(args, &mut clients, data, &schema, query, open)
}

/// Runs the query, and writes its rows.
fn ask(
    args: &Args,
    clients: &mut [Client],
    data: DataSet,
    schema: &Schema,
    query: Query,
    open: impl FnOnce(&SchemaRef) -> Result<Rows, Failure>,
) -> Result<Vec<String>, Failure> {
    let output = scan::output_schema(schema, &query);
    let output = output.map_err(|error| Failure::usage(error.to_string()))?;
    let rows = open(&output)?;
    let cpus = clients.iter().map(|client| client.agent().cpus).max();
    let threads = args.threads.map(|threads| threads as u32).or(cpus);
    let request = ScanRequest {
        threads: threads.unwrap_or(1).max(1),
        ..ScanRequest::new(data, schema, query)
    };
    let scanned = scan_parts(
        clients,
        &request,
        schema,
        &|batch| match rows.write(batch) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        },
    );
    let ends = match scanned {
        // Nobody waits for the rest.
        Err(ClientError::Interrupted) if reader_has_left() => Vec::new(),
        scanned => scanned.map_err(client_failure)?,
    };
    rows.finish()?;
    let plans = args.server.iter().zip(&ends).map(|(address, scanned)| {
        let explain = scanned.end.explain.lines();
        let explain = explain.map(|line| printable(line, WORDS_MAX));
        let threads = scanned.end.threads;
        format!(
            "{address}, {threads} threads:\n{}",
            explain.collect::<Vec<_>>().join("\n")
        )
    });
    Ok(plans.collect())
}

/// The table at one agent: of the data set that was asked for, or the only one that has such a table.
fn table(
    args: &Args,
    name: &str,
    address: &str,
    client: &mut Client,
) -> Result<TableInfo, Failure> {
    let asked = match (args.sf, &args.data) {
        (Some(sf), _) => {
            Some(DataSet::tpch(sf).map_err(|error| Failure::usage(format!("--sf: {error}")))?)
        }
        (None, data) => data.clone(),
    };
    let all = match &asked {
        Some(data) => client.describe(data),
        None => client.catalog(),
    };
    let all = all.map_err(client_failure)?;
    let is_it = |table: &&TableInfo| table.schema.table.eq_ignore_ascii_case(name);
    let found: Vec<&TableInfo> = all.iter().filter(is_it).collect();
    let own = found.iter().find(|table| table.data.is_given());
    if let (Some(table), _) | (None, [table]) = (own, &found[..]) {
        return Ok((*table).clone());
    }
    let name = printable(name, WORDS_MAX);
    if found.is_empty() {
        let of = asked.map_or_else(String::new, |data| format!(" in {data}"));
        let names = all.iter().map(|table| {
            format!(
                "{} ({})",
                printable(&table.schema.table, WORDS_MAX),
                table.data
            )
        });
        let names = names.collect::<Vec<_>>().join(", ");
        let there = match names.as_str() {
            "" => "it has none: `dpb data` makes TPC-H's on its machine, `dpb serve --table FILE` serves others".to_owned(),
            names => format!("it has {names}"),
        };
        return Err(Failure::unavailable(format!(
            "the agent at {address} has no table `{name}`{of}; {there}"
        )));
    }
    let sets: Vec<&str> = found.iter().map(|table| table.data.name()).collect();
    Err(Failure::usage(format!(
        "the agent at {address} has `{name}` in {}: choose one with --sf or --data",
        sets.join(", ")
    )))
}
