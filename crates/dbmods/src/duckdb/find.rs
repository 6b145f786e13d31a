//! Where a DuckDB library may be, and what to do if there is none.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fmt};

use super::raw;
use super::sys::Functions;

/// A DuckDB library that was found and loaded. The library stays loaded until the process ends.
#[derive(Clone, Copy)]
pub struct Library {
    loaded: &'static Loaded,
}

/// The reason why there is no DuckDB here, in words that a person can act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}. Looked in: {}. {remedy}", searched.join("; "))]
pub struct Missing {
    /// The failure, in a sentence.
    pub reason: String,
    /// The places that were tried, each with its answer.
    pub searched: Vec<String>,
    /// The advice for the reader.
    pub remedy: String,
}

struct Loaded {
    api: Functions,
    version: String,
    origin: String,
}

/// Libraries loaded so far: DuckDB does not expect to be unloaded, so each is loaded once and kept.
static LOADED: Mutex<Vec<&'static Loaded>> = Mutex::new(Vec::new());

const FILE: &str = "libduckdb.so";

impl Library {
    /// Looks for DuckDB: in `DUCKDB_LIB_DIR`, in dpb's cache, where the system's loader looks, and last among what was
    /// linked into this program (feature `duckdb-bundled`). `DUCKDB_LIB_DIR` decides if it is set.
    ///
    /// # Errors
    /// [`Missing`] if none of these has one that can be used.
    pub fn find() -> Result<Self, Missing> {
        let mut searched = Vec::new();
        if let Some(dir) = env::var_os("DUCKDB_LIB_DIR").filter(|dir| !dir.is_empty()) {
            let path = Path::new(&dir).join(FILE);
            return Self::open(&path).map_err(|why| Missing {
                reason: "DUCKDB_LIB_DIR is set, but the DuckDB in it cannot be used".to_owned(),
                searched: vec![why],
                remedy: format!("Set it to a folder that holds {FILE}, or unset it."),
            });
        }
        for path in cache_dir().iter().flat_map(|dir| cached(dir)) {
            match Self::open(&path) {
                Ok(found) => return Ok(found),
                Err(why) => searched.push(why),
            }
        }
        match cache_dir() {
            Some(dir) if searched.is_empty() => {
                searched.push(format!("{}: nothing", dir.display()))
            }
            Some(_) => {}
            None => {
                searched.push("no cache, because neither XDG_CACHE_HOME nor HOME is set".to_owned())
            }
        }
        match Self::open(Path::new(FILE)) {
            Ok(found) => return Ok(found),
            Err(why) => searched.push(why),
        }
        #[cfg(feature = "duckdb-bundled")]
        return Ok(Self::bundled());
        #[cfg(not(feature = "duckdb-bundled"))]
        Err(Missing {
            reason: "there is no DuckDB on this machine".to_owned(),
            searched,
            remedy: format!(
                "`cargo xtask setup` fetches or compiles one; or set DUCKDB_LIB_DIR to a folder that holds {FILE}; or build with \
                 `--features duckdb-bundled`, which compiles DuckDB and takes tens of minutes."
            ),
        })
    }

    /// Loads the library at `path`; a bare file name is looked for by the system's loader.
    ///
    /// # Errors
    /// A sentence that names the path and says why not.
    pub fn open(path: &Path) -> Result<Self, String> {
        let origin = path.display().to_string();
        let mut known = LOADED
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(loaded) = known.iter().find(|loaded| loaded.origin == origin) {
            return Ok(Self { loaded });
        }
        let api = raw::load(path).map_err(|why| format!("{origin}: {}", one_line(&why)))?;
        Ok(Self::keep(&mut known, api, origin))
    }

    /// The DuckDB that was linked into this program.
    #[cfg(feature = "duckdb-bundled")]
    pub fn bundled() -> Self {
        let origin = "linked into this program".to_owned();
        let mut known = LOADED
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match known.iter().find(|loaded| loaded.origin == origin) {
            Some(loaded) => Self { loaded },
            None => Self::keep(&mut known, Functions::linked(), origin),
        }
    }

    fn keep(known: &mut Vec<&'static Loaded>, api: Functions, origin: String) -> Self {
        let version = raw::version(&api);
        let loaded: &'static Loaded = Box::leak(Box::new(Loaded {
            api,
            version,
            origin,
        }));
        known.push(loaded);
        Self { loaded }
    }

    /// Returns DuckDB's version, such as `v2.0.0`.
    pub fn version(&self) -> &'static str {
        &self.loaded.version
    }

    /// Returns the library's path, or the words that the library was linked in.
    pub fn origin(&self) -> &'static str {
        &self.loaded.origin
    }

    pub(super) fn api(&self) -> &'static Functions {
        &self.loaded.api
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DuckDB {} ({})", self.version(), self.origin())
    }
}

/// dpb's cache of DuckDB libraries: `$XDG_CACHE_HOME/dpb/duckdb`, or `~/.cache/dpb/duckdb`.
pub fn cache_dir() -> Option<PathBuf> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("dpb").join("duckdb"))
}

/// The libraries in the cache that are for this architecture, the newest version first.
fn cached(dir: &Path) -> Vec<PathBuf> {
    let suffix = format!("-{}", env::consts::ARCH);
    let Ok(entries) = dir.read_dir() else {
        return Vec::new();
    };
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_suffix(&suffix)?;
            let numbers = version
                .split('.')
                .map(|part| part.parse().ok())
                .collect::<Option<_>>()?;
            let path = entry.path().join(FILE);
            path.exists().then_some((numbers, path))
        })
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_first_and_only_this_architecture() {
        let dir = tempfile::tempdir().unwrap();
        let arch = env::consts::ARCH;
        for name in [
            format!("1.5.9-{arch}"),
            format!("1.5.10-{arch}"),
            "9.0.0-vax".into(),
            format!("x-{arch}"),
        ] {
            std::fs::create_dir(dir.path().join(&name)).unwrap();
            std::fs::write(dir.path().join(&name).join(FILE), "").unwrap();
        }
        std::fs::create_dir(dir.path().join(format!("3.0.0-{arch}"))).unwrap();
        let expected =
            ["1.5.10", "1.5.9"].map(|v| dir.path().join(format!("{v}-{arch}")).join(FILE));
        assert_eq!(cached(dir.path()), expected);
        assert!(cached(&dir.path().join("nothing")).is_empty());
    }

    #[test]
    fn a_duckdb_that_cannot_stream_gives_the_same_rows() {
        use crate::duckdb::{Config, Database, Delivery};
        let Ok(newer) = Library::find() else {
            println!("skipped: there is no DuckDB");
            return;
        };
        let api = Functions {
            duckdb_pending_prepared_streaming: None,
            ..newer.api().clone()
        };
        let older = Library::keep(&mut Vec::new(), api, "made by a test".to_owned());
        let database = Database::open(older, None, &Config::default()).unwrap();
        let mut connection = database.connect().unwrap();
        let rows = connection.query("FROM range(70000)", None, Delivery::Streamed);
        let counts = rows.unwrap().map(|batch| batch.unwrap().num_rows());
        assert_eq!(counts.sum::<usize>(), 70_000);
    }

    #[test]
    fn what_is_no_duckdb_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let refusal = Library::open(&path).unwrap_err();
        assert!(
            refusal.contains("No such file") && refusal.contains(FILE),
            "{refusal}"
        );
        std::fs::write(&path, "not a library").unwrap();
        let refusal = Library::open(&path).unwrap_err();
        assert!(
            refusal.starts_with(&path.display().to_string()),
            "{refusal}"
        );
        assert!(!refusal.contains('\n'));
        // A real library that is something else: the C library, which this test runs on.
        let refusal = Library::open(Path::new("libc.so.6")).unwrap_err();
        assert!(refusal.contains("has no function duckdb_"), "{refusal}");
    }
}
