//! The room that a folder's file system has.

use std::io;
use std::path::Path;

use rustix::fs::statvfs;

/// The bytes that this user may still write in `folder`.
///
/// # Errors
/// What the system says.
pub fn available_bytes(folder: &Path) -> io::Result<u64> {
    let system = statvfs(folder)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}
