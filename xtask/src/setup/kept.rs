//! Libraries of DuckDB in the cache: how one gets there whole.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::shell::Scratch;

/// What a library is called in the cache.
pub(super) const FILE: &str = "libduckdb.so";

/// Puts a library, which lies in a scratch folder of the cache, into the cache; says where it is.
pub(super) fn keep(
    library: &Path,
    cache: &Path,
    version: &str,
    arch: &str,
) -> Result<PathBuf, String> {
    let at = |path: &Path, why: io::Error| format!("{}: {why}", path.display());
    let ready = Scratch::under(cache).map_err(|why| at(cache, why))?;
    let home = cache.join(format!("{version}-{arch}"));
    fs::rename(library, ready.path().join(FILE)).map_err(|why| at(library, why))?;
    match fs::rename(ready.path(), &home) {
        Ok(()) => {}
        // Another setup was faster.
        Err(_) if home.join(FILE).is_file() => {}
        Err(why) => return Err(at(&home, why)),
    }
    Ok(home.join(FILE))
}
