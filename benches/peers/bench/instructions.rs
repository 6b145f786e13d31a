//! How many instructions something takes, by the word of the emulator that runs us.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::process::{Pid, getpgid};

/// A process that cannot be: above what the kernel numbers them to. Asking for its group is what the plugin waits for.
const NO_PROCESS: i32 = 0x0dbb_0b5e;

/// Instructions of one call of `run`, with the two calls of the kernel that mark its ends.
///
/// # Errors
/// If `file` has not got the two counts, of eight bytes each.
pub(crate) fn of(file: &Path, run: impl FnOnce()) -> Result<u64> {
    let mark = || {
        // There is no such process; that is the point.
        let _ = getpgid(Pid::from_raw(NO_PROCESS));
    };
    mark();
    run();
    mark();
    let mut counts = Vec::new();
    File::open(file)
        .and_then(|mut file| file.read_to_end(&mut counts))
        .with_context(|| file.display().to_string())?;
    let (counts, _) = counts.as_chunks::<8>();
    let [.., before, after] = counts else {
        anyhow::bail!("{}: the emulator has counted nothing", file.display());
    };
    Ok(u64::from_le_bytes(*after) - u64::from_le_bytes(*before))
}
