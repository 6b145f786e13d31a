//! `dpb query`: rows of one table for people, scanned where the table is.

mod agents;
mod cells;
mod format;
mod here;
mod output;
mod writers;

use std::path::PathBuf;

use dpb_dbmods::query::sql::{self, SqlError};
use dpb_dbmods::service::protocol::DataSet;

use self::format::{Destination, Format};
use self::output::Rows;
use crate::exit::Failure;
use crate::output::note;
use crate::{Globals, args, interrupt};

/// Ask a table in SQL, at an agent or here, and print its rows as they come.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The statement: SELECT columns or aggregates FROM table WHERE … GROUP BY … LIMIT …, of one of TPC-H's eight tables or of a \
                  table of your own. The scan does all of it where the table is. What it has not (JOIN, ORDER BY, subqueries, \
                  expressions behind SELECT) is refused by name: write the rows to a file, and let a database do the rest.\n\
                  Formats (--format): table (the default on a terminal), json (an object a line; the default to a pipe or a file; integers and \
                  doubles are numbers, decimals and dates are strings; not every reader keeps integers beyond 2^53), csv (RFC 4180, lines end with \\n; NULL is empty, an empty text is \
                  \"\"; a NULL alone in its row is a blank line, which many readers pass over: --null gives it a text), arrow (Arrow's IPC stream; decimals have 128 bits), parquet (snappy). The order of rows is not defined.\n\
                  Examples:\n  dpb query \"SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity > 49 LIMIT 10\"\n  \
                  dpb query \"SELECT o_orderpriority, count(*) FROM orders GROUP BY o_orderpriority\" --sf 10 --server dpu:7400 \
                  --credentials client.credentials\n  \
                  dpb query \"SELECT * FROM part WHERE p_size = 15\" --output part.parquet\n  \
                  dpb query \"SELECT avg(price) FROM sales\" --server one:7400,two:7400 --credentials client.credentials"
)]
pub struct Args {
    /// The statement
    #[arg(value_name = "SQL")]
    statement: String,
    /// The address of an agent that has the table (`dpb serve`), host:port [default: scan in this process]. Several agents
    /// have parts of one table, which `dpb serve --table` gives them; aggregates are those of all parts
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = args::address)]
    server: Vec<String>,
    /// The file `client.credentials` of the agents' credentials: connections are encrypted
    #[arg(long, value_name = "FILE", requires = "server")]
    credentials: Option<PathBuf>,
    /// A file with the token that an agent on this machine asks for; only its owner may read it
    #[arg(
        long,
        value_name = "FILE",
        requires = "server",
        conflicts_with = "credentials"
    )]
    token_file: Option<PathBuf>,
    /// TPC-H's scale factor; fractions work [default: 1 here; the only one that the agent has]
    #[arg(long, value_name = "REAL", allow_negative_numbers = true)]
    sf: Option<f64>,
    /// The agent's data set: tpch-sf1, or given for tables that the agent was given [default: given, if it has the table]
    #[arg(long, value_name = "NAME", requires = "server", conflicts_with = "sf")]
    data: Option<DataSet>,
    /// A segment file with a table of your own, to be scanned in this process
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "sf"])]
    table: Option<PathBuf>,
    /// The number of threads that scan [default: one a CPU, of the machine that scans]
    #[arg(long, value_name = "COUNT", value_parser = args::threads)]
    threads: Option<u64>,
    /// The text of NULL in csv [default: nothing]
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// Say behind the rows, on stderr, how the scan went about the statement
    #[arg(long)]
    explain: bool,
    /// The file that rows are written to; it appears once it is whole. Without --format its name says the format: .csv, .json, .arrow,
    /// .parquet [default: stdout]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The folder that data is kept in [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

/// Scans, and writes rows as they come.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    let destination = Destination::of(args.output.as_deref());
    let format = Format::choose(globals.format, &destination)?;
    let null = args.null.as_deref().unwrap_or_default();
    if args.null.is_some() && format != Format::Csv {
        return Err(Failure::usage(
            "--null is for --format csv: other formats have a NULL",
        ));
    }
    if null.contains(['"', ',', '\n', '\r']) {
        return Err(Failure::usage(
            "--null: a text without quotes, commas and ends of lines",
        ));
    }
    let name = sql::table_name(&args.statement).map_err(|error| not_understood(&error))?;
    let plans = match args.server.is_empty() {
        true => here::scan(&args, &name, globals, |schema| {
            Rows::open(&destination, (format, null), schema)
        })?,
        false => agents::scan(&args, &name, |schema| {
            Rows::open(&destination, (format, null), schema)
        })?,
    };
    if args.explain {
        plans.iter().for_each(|plan| note(plan));
    }
    Ok(())
}

/// The failure of a statement that was not understood.
fn not_understood(error: &SqlError) -> Failure {
    Failure::usage(format!("the statement is not understood\n{error}"))
}
