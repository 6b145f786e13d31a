//! How many instructions something takes, by the word of the emulator that runs us.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::process::{Pid, getpgid};

/// A process that cannot be: above what the kernel numbers them to. Asking for its group is what the plugin waits for.
const NO_PROCESS: i32 = 0x0dbb_0b5e;

/// Calls at most until what something learns from its data is learnt.
const CALLS: usize = 16;
/// The share of a call's instructions that the next one may save if it has settled.
const SETTLED: f64 = 0.01;

/// Instructions of a call of `run` behind others, when they no longer get fewer: automata make their states as data lead to them.
///
/// # Errors
/// `file` has not got the counts.
pub(crate) fn of_settled(file: &Path, mut run: impl FnMut()) -> Result<u64> {
    let mut count = of(file, &mut run)?;
    for _ in 1..CALLS {
        let next = of(file, &mut run)?;
        let is_settled = next as f64 >= count as f64 * (1.0 - SETTLED);
        count = next;
        if is_settled {
            break;
        }
    }
    Ok(count)
}

/// Instructions of one call of `run`, without those of the calls of the kernel that mark its ends.
///
/// # Errors
/// If `file` has not got the three counts, of eight bytes each.
fn of(file: &Path, run: impl FnOnce()) -> Result<u64> {
    let mark = || {
        // There is no such process; that is the point.
        let _ = getpgid(Pid::from_raw(NO_PROCESS));
    };
    mark();
    mark();
    run();
    mark();
    let mut counts = Vec::new();
    File::open(file)
        .and_then(|mut file| file.read_to_end(&mut counts))
        .with_context(|| file.display().to_string())?;
    let (counts, _) = counts.as_chunks::<8>();
    let [.., first, second, third] = *counts else {
        anyhow::bail!("{}: the emulator has counted nothing", file.display());
    };
    let [first, second, third] = [first, second, third].map(u64::from_le_bytes);
    Ok((third - second).saturating_sub(second - first))
}
