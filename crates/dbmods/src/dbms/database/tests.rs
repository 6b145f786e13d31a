//! At a small scale factor, against the library that is found here; without one each test says so and checks nothing.

use std::fs;

use dpb_core::WallClock;

use super::*;
use crate::duckdb::tests::library;
use crate::tpch;

const SF: f64 = 0.001;

fn segments(dir: &Path) -> TableSet {
    let going = |_: tpch::Step<'_>| ControlFlow::Continue(());
    tpch::ensure(dir, SF, &TABLES, 2, &WallClock::default(), &going).unwrap()
}

fn made(library: Library, dir: &Path, steps: &mut Vec<String>) -> TpchDatabase {
    let tables = segments(dir);
    let mut told = |step: DatabaseStep<'_>| {
        steps.push(format!("{step:?}"));
        ControlFlow::Continue(())
    };
    ensure(library, dir, &tables, 2, &WallClock::default(), &mut told).unwrap()
}

#[test]
fn it_is_made_once_holds_all_tables_and_is_made_anew_when_damaged() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let first = made(library, dir.path(), &mut Vec::new());
    assert!(first.is_new);
    assert_eq!(first.rows.len(), 8);
    assert_eq!(first.rows["region"], 5);
    let names: Vec<_> = kept::entries(first.path.parent().unwrap())
        .map(|(_, name)| name)
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let again = made(library, dir.path(), &mut Vec::new());
    assert!(!again.is_new && again.bytes == first.bytes);
    // One bit of a block in the middle.
    let mut bytes = fs::read(&first.path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&first.path, &bytes).unwrap();
    let mut steps = Vec::new();
    let anew = made(library, dir.path(), &mut steps);
    assert!(anew.is_new);
    assert!(
        steps.iter().any(|step| step.starts_with("Damaged")),
        "{steps:?}"
    );
    // Cut off, and of another generator.
    let file = File::options().write(true).open(&anew.path).unwrap();
    file.set_len(anew.bytes - 1).unwrap();
    assert!(made(library, dir.path(), &mut Vec::new()).is_new);
    let manifest_path = anew.path.with_file_name(MANIFEST);
    let text = fs::read_to_string(&manifest_path).unwrap();
    fs::write(&manifest_path, text.replace(GENERATOR, "another 1.0")).unwrap();
    assert!(made(library, dir.path(), &mut Vec::new()).is_new);
    assert_eq!(paths(dir.path()).len(), 2);
    remove(dir.path(), SF, &WallClock::default()).unwrap();
    assert!(paths(dir.path()).is_empty());
}

#[test]
fn giving_up_leaves_nothing() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let tables = segments(dir.path());
    let mut stop = |_: DatabaseStep<'_>| ControlFlow::Break(());
    let ended = ensure(
        library,
        dir.path(),
        &tables,
        1,
        &WallClock::default(),
        &mut stop,
    );
    assert!(
        matches!(ended, Err(DatabaseError::Interrupted)),
        "{ended:?}"
    );
    let left: Vec<_> = paths(dir.path())
        .into_iter()
        .map(|(_, path)| path)
        .collect();
    assert!(
        left.iter()
            .all(|path| path.extension().is_some_and(|end| end == "lock")),
        "{left:?}"
    );
}
