//! DuckDB over its own files of an agent's: those of the tables that a query reads cross the link first, each time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dpb_link::Connect;

use super::answer::Answer;
use super::queries::TpchQuery;
use super::source::AgentError;
use super::stock::Settings;
use crate::compare::fetched_file::FetchedFile;
use crate::duckdb::{Config, Database, Delivery, Library, literal};
use crate::service::client::Client;
use crate::service::protocol::{self, DataSet, FileFormat, TableInfo};

/// DuckDB, and a connection that its files come by. They land in memory, in pages that earlier runs have touched.
#[derive(Debug)]
pub struct FetchingDuckDb {
    library: Library,
    client: Client,
    data: DataSet,
    tables: BTreeMap<String, TableInfo>,
    files: BTreeMap<&'static str, FetchedFile>,
    settings: Settings,
}

/// A run of a query, beside its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fetched {
    /// Bytes that came over the link.
    pub link_bytes: u64,
}

impl FetchingDuckDb {
    /// Connects to an agent that has DuckDB's files of the tables of a scale factor.
    ///
    /// # Errors
    /// If it cannot be reached, or has no such tables.
    pub fn connect(
        library: Library,
        connect: Connect,
        scale_factor: f64,
        settings: Settings,
    ) -> Result<Self, AgentError> {
        let data =
            DataSet::tpch(scale_factor).map_err(|error| AgentError::lacks(error.to_string()))?;
        let capabilities = protocol::CAPABILITY_FETCH | protocol::CAPABILITY_DUCKDB;
        let mut client = Client::connect_with(connect, capabilities)?;
        let tables = client.describe(&data)?;
        Ok(Self {
            library,
            client,
            data,
            tables: (tables.into_iter())
                .map(|info| (info.schema.table.clone(), info))
                .collect(),
            files: BTreeMap::new(),
            settings,
        })
    }

    /// What the agent lacks, if it lacks something.
    pub(super) fn missing(&self) -> Option<String> {
        let missing = self.client.agent().duckdb.as_ref().err();
        missing.map(|missing| format!("at the agent: {missing}"))
    }

    /// Why a query's files cannot be fetched into so much memory, if they cannot.
    pub(super) fn shortage(&self, query: &TpchQuery, available_bytes: u64) -> Option<String> {
        let missing = query
            .tables()
            .filter(|table| !self.files.contains_key(table))
            .filter_map(|table| self.tables.get(table)?.duckdb_bytes);
        shortage(missing.sum(), available_bytes)
    }

    /// Fetches the files of a query's tables, and runs it over them. `ended` is called after the last row, `apart` before and after what
    /// is done for our sake and not by the peer.
    ///
    /// # Errors
    /// The agent's words, or DuckDB's.
    pub fn run(
        &mut self,
        query: &TpchQuery,
        apart: &mut dyn FnMut(),
        ended: impl FnOnce(),
    ) -> Result<(Answer, Fetched), String> {
        let before = self.client.bytes().1;
        for table in query.tables() {
            self.fetch(table)?;
        }
        let link_bytes = self.client.bytes().1 - before;
        let answer = self.query(query, apart, ended)?;
        Ok((answer, Fetched { link_bytes }))
    }

    /// Bytes of memory that the files take, which the system does not count as this process's.
    pub(super) fn file_bytes(&self) -> u64 {
        let bytes = self.files.values().map(|file| file.bytes().unwrap_or(0));
        bytes.sum()
    }

    fn fetch(&mut self, table: &'static str) -> Result<(), String> {
        let info = self.tables.get(table);
        let bytes_max = info.and_then(|info| info.duckdb_bytes).ok_or_else(|| {
            format!(
                "the agent has no file of DuckDB's with {table}: `dpb dbms --engine duckdb-fetch` makes it, on its machine"
            )
        })?;
        let scratch = |error: std::io::Error| format!("no place for a file: {error}");
        let mut file = match self.files.remove(table) {
            Some(file) => file,
            None => FetchedFile::new().map_err(scratch)?,
        };
        let to = file.rewound().map_err(scratch)?;
        let bytes = self
            .client
            .fetch(&self.data, table, FileFormat::DuckDb, bytes_max, to)
            .map_err(|error| error.to_string())?;
        file.cut(bytes).map_err(scratch)?;
        self.files.insert(table, file);
        Ok(())
    }

    fn query(
        &self,
        query: &TpchQuery,
        apart: &mut dyn FnMut(),
        ended: impl FnOnce(),
    ) -> Result<Answer, String> {
        let words = |error: crate::duckdb::Error| error.to_string();
        let files: Vec<(&str, PathBuf)> = (query.tables())
            .filter_map(|table| Some((table, resolved(self.files.get(table)?.path()))))
            .collect();
        // DuckDB looks for a log beside a file that it attaches.
        let log = |path: &PathBuf| PathBuf::from(format!("{}.wal", path.display()));
        let allowed = files.iter().flat_map(|(_, path)| [path.clone(), log(path)]);
        let config = Config {
            threads: Some(self.settings.threads),
            memory_bytes_max: self.settings.memory_bytes_max,
            temp_dir: Some(self.settings.spill.clone()),
            allowed_paths: allowed.collect(),
            ..Config::default()
        };
        let database = Database::open(self.library, None, &config).map_err(words)?;
        let mut connection = database.connect().map_err(words)?;
        for (table, path) in &files {
            let path = literal(path.display());
            let attach = format!("ATTACH {path} AS of_{table} (READ_ONLY)");
            connection.execute(&attach).map_err(words)?;
        }
        apart();
        for (table, _) in &files {
            let sql = format!(
                "SELECT 1 FROM system.main.duckdb_tables() WHERE database_name = 'of_{table}' AND schema_name = 'main' \
                 AND table_name = '{table}' AND NOT EXISTS (FROM system.main.duckdb_views() WHERE NOT internal) \
                 AND NOT EXISTS (FROM system.main.duckdb_functions() WHERE NOT internal)"
            );
            let rows = connection.query(&sql, None, Delivery::Materialised);
            let rows = rows
                .map_err(words)?
                .map(|batch| batch.map_or(0, |batch| batch.num_rows()));
            if rows.sum::<usize>() != 1 {
                return Err(format!(
                    "the file of {table} does not hold it as a table by itself"
                ));
            }
        }
        apart();
        for (table, _) in &files {
            let view = format!("CREATE VIEW {table} AS SELECT * FROM of_{table}.main.{table}");
            connection.execute(&view).map_err(words)?;
        }
        let rows = connection
            .query(query.sql, None, Delivery::Materialised)
            .map_err(words)?;
        let batches = rows.collect::<Result<Vec<_>, _>>().map_err(words)?;
        ended();
        let mut answer = Answer::default();
        batches.iter().try_for_each(|batch| answer.add(batch))?;
        Ok(answer)
    }
}

/// Why files of so many bytes cannot be fetched into so much memory, if they cannot.
fn shortage(bytes: u64, available_bytes: u64) -> Option<String> {
    (bytes > available_bytes).then(|| {
        format!(
            "the files that are fetched take {bytes} bytes of memory, and {available_bytes} are available: end other programs, take a smaller --sf, \
             or leave out --engine duckdb-fetch"
        )
    })
}

/// A path of this process's files as DuckDB resolves it, since it compares paths that are allowed with those.
fn resolved(path: PathBuf) -> PathBuf {
    match path.strip_prefix("/proc/self") {
        Ok(below) => PathBuf::from(format!("/proc/{}", std::process::id())).join(below),
        Err(_) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_memory_has_no_room_for_are_not_fetched() {
        assert_eq!(shortage(1000, 1000), None);
        let why = shortage(1001, 1000).unwrap();
        assert!(
            why.contains("1001 bytes") && why.contains("1000 are available"),
            "{why}"
        );
    }
}
