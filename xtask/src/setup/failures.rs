//! What was tried in vain is not tried again for a day, so that `cargo xtask demo` and `test` do not wait each time for
//! what this machine cannot have. `cargo xtask setup`, called by hand, forgets it and tries again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const PREFIX: &str = ".failed-";

/// Does `act`, unless it failed within a day; then the reason of that time. A failure is remembered in `folder` under
/// `name`, unless `offline`, without a network, says nothing of what can be had with one. Who stops it does not want to wait
/// for it the next time either, so that is remembered as well.
pub(super) fn unless_failed_lately(
    folder: &Path,
    name: &str,
    offline: bool,
    act: impl FnOnce() -> Result<String, String>,
) -> Result<String, String> {
    let memory = folder.join(format!("{PREFIX}{name}"));
    if let Some(why) = recent(&memory) {
        return Err(why);
    }
    // A folder that cannot be written costs the next run its time, nothing else.
    let _ = fs::create_dir_all(folder);
    let _ = fs::write(&memory, "it was stopped");
    let outcome = act();
    let _ = match &outcome {
        Err(why) if !offline => fs::write(&memory, why),
        _ => fs::remove_file(&memory),
    };
    outcome
}

/// Forgets all failures that are remembered in `folder`.
pub(super) fn forget(folder: &Path) {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let remembered: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        .map(|entry| entry.path())
        .collect();
    for path in remembered {
        let _ = fs::remove_file(path);
    }
}

/// Why it failed, if that was within a day.
fn recent(memory: &Path) -> Option<String> {
    let written = fs::metadata(memory).ok()?.modified().ok()?;
    // A time in the future counts as long ago.
    let age = written.elapsed().ok().filter(|&age| age < DAY)?;
    let why = fs::read_to_string(memory).ok()?;
    let hours = age.as_secs() / 3600;
    Some(format!("{why} ({hours} h ago, not tried again for a day)"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::SystemTime;

    use super::super::shell::Scratch;
    use super::*;

    #[test]
    fn a_failure_is_remembered_for_a_day() {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.path().join("cache");
        let times = Cell::new(0);
        let attempt = |offline| {
            unless_failed_lately(&folder, "fetch", offline, || {
                times.set(times.get() + 1);
                Err("no network".to_owned())
            })
        };
        // Without a network it says nothing of what can be had with one.
        assert_eq!(attempt(true), Err("no network".to_owned()));
        assert_eq!(attempt(false), Err("no network".to_owned()));
        assert_eq!(times.get(), 2);
        for _ in 0..2 {
            let again = attempt(false).unwrap_err();
            assert!(again.starts_with("no network (0 h ago"), "{again}");
        }
        assert_eq!(times.get(), 2);
        // Another thing is not that thing.
        let other = unless_failed_lately(&folder, "other", false, || Ok("there".to_owned()));
        assert_eq!(other.as_deref(), Ok("there"));

        let memory = folder.join(".failed-fetch");
        let file = fs::File::options().write(true).open(&memory).unwrap();
        file.set_modified(SystemTime::now() - DAY).unwrap();
        assert_eq!(attempt(false), Err("no network".to_owned()));
        assert_eq!(times.get(), 3);

        fs::write(folder.join("library"), "kept").unwrap();
        forget(&folder);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(attempt(false), Err("no network".to_owned()));
        assert_eq!(times.get(), 4);
    }

    #[test]
    fn what_was_stopped_failed_and_what_worked_did_not() {
        let scratch = Scratch::new().unwrap();
        let attempt = |act: &dyn Fn() -> Result<String, String>| {
            unless_failed_lately(scratch.path(), "compile", false, act)
        };
        let worked = attempt(&|| {
            // What a process that is killed here leaves.
            let during = attempt(&|| unreachable!("it is being tried")).unwrap_err();
            assert!(during.starts_with("it was stopped (0 h ago"), "{during}");
            Ok("library".to_owned())
        });
        assert_eq!(worked.as_deref(), Ok("library"));
        assert_eq!(scratch.path().read_dir().unwrap().count(), 0);
    }
}
