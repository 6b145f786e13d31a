//! Folders that DuckDB spills into.
//!
//! ```text
//! DIR/spill/OWNER-4711-0/   of process 4711, its first
//! ```
//!
//! DuckDB names the files in such a folder by counters of its own, opens those that are there, and removes all of them in the end. So
//! each database has a folder to itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The folder of all such folders, in the data folder.
const PARENT: &str = "spill";

/// The number of the next folder of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder of its own for one database. It is removed, with all in it, when this value is dropped.
#[derive(Debug)]
pub struct Spill {
    path: PathBuf,
}

impl Spill {
    /// A folder under a data folder. `owner` says for people who has it, in lower-case letters.
    pub fn new(data_dir: &Path, owner: &str) -> Self {
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
        let name = format!("{owner}-{process}-{number}");
        Self {
            path: data_dir.join(PARENT).join(name),
        }
    }

    /// The folder, made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn folder(&self) -> io::Result<&Path> {
        fs::create_dir_all(&self.path)?;
        Ok(&self.path)
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// The folders under a data folder whose processes are gone.
pub fn abandoned(data_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data_dir.join(PARENT)).into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    let is_abandoned = |path: &PathBuf| {
        let process = path.file_name().and_then(|name| {
            let mut parts = name.to_str()?.split('-').skip(1);
            let process: u32 = parts.next()?.parse().ok()?;
            parts.next()?.parse::<u64>().ok()?;
            parts.next().is_none().then_some(process)
        });
        process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists())
    };
    let mut abandoned: Vec<PathBuf> = paths.filter(is_abandoned).collect();
    abandoned.sort();
    abandoned
}

/// Removes a folder that DuckDB spilled into, and the one that it lies in if that is empty then.
pub fn remove(folder: &Path) {
    // What cannot be removed is seen by whoever looks for what is abandoned.
    let _ = fs::remove_dir_all(folder);
    if let Some(parent) = folder.parent() {
        let _ = fs::remove_dir(parent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_folder_of_its_own_and_what_is_left_behind_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(abandoned(dir.path()), Vec::<PathBuf>::new());
        let (one, other) = (
            Spill::new(dir.path(), "agent"),
            Spill::new(dir.path(), "agent"),
        );
        let (of_one, of_other) = (one.folder().unwrap(), other.folder().unwrap());
        assert_ne!(of_one, of_other);
        fs::write(of_one.join("duckdb_temp_storage_DEFAULT-0.tmp"), "rows").unwrap();
        // Of a process that has ended, and of nobody.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let left = of_one.with_file_name(format!("dbms-{}-3", child.id()));
        let foreign = of_one.with_file_name("notes");
        fs::create_dir(&left).unwrap();
        fs::create_dir(&foreign).unwrap();
        assert_eq!(abandoned(dir.path()), std::slice::from_ref(&left));
        let paths = [of_one.to_owned(), of_other.to_owned()];
        drop((one, other));
        assert!(paths.iter().all(|path| !path.exists()) && foreign.exists());
        fs::remove_dir(foreign).unwrap();
        remove(&left);
        assert!(!dir.path().join(PARENT).exists());
    }
}
