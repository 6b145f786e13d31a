//! Tables are made once, kept, and made again when damaged or foreign.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const SF: f64 = 0.001;

fn quiet(_: Step<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Makes the tables that are not there; says how many it made.
fn made(dir: &Path, tables: &[&str]) -> usize {
    let count = AtomicUsize::new(0);
    let set = ensure(
        dir,
        SF,
        tables,
        2,
        &dpb_core::WallClock::default(),
        &|step| {
            if let Step::Making { rows: 0, .. } = step {
                count.fetch_add(1, Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        },
    )
    .unwrap();
    for table in tables {
        set.open(table).unwrap().verify().unwrap();
        assert_eq!(
            fs::metadata(set.path(table)).unwrap().len(),
            set.table(table).unwrap().bytes
        );
    }
    count.into_inner()
}

#[test]
fn tables_are_made_once_and_damaged_ones_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(made(dir, &["nation", "orders"]), 2);
    assert_eq!(made(dir, &["orders", "nation"]), 0);
    assert_eq!(made(dir, &TABLES), 6);
    let set = find(dir, SF);
    assert_eq!(set.tables.len(), 8);
    assert_eq!(list(dir).unwrap().len(), 1);
    let file = fs::read(set.path("orders")).unwrap();
    assert_eq!(
        set.table("orders").unwrap().crc32c,
        crc_fast::crc32_iscsi(&file)
    );

    fs::remove_file(set.path("orders")).unwrap();
    assert!(matches!(
        find(dir, SF).open("orders"),
        Err(DataError::Missing { .. })
    ));
    assert_eq!(made(dir, &TABLES), 1);
    fs::write(set.path("part"), &file[..file.len() / 2]).unwrap();
    assert_eq!(made(dir, &TABLES), 1);
    fs::write(set.dir.join(MANIFEST), "{ torn").unwrap();
    fs::write(
        set.dir.join(".lineitem.dpbseg.1.tmp"),
        "left by a dead process",
    )
    .unwrap();
    assert_eq!(made(dir, &TABLES), 8);
    assert!(!set.dir.join(".lineitem.dpbseg.1.tmp").exists());

    assert!(remove(dir, SF, &["lineitem"], &dpb_core::WallClock::default()).unwrap() > 0);
    assert_eq!(find(dir, SF).tables.len(), 7);
    remove(dir, SF, &TABLES, &dpb_core::WallClock::default()).unwrap();
    assert!(!set.dir.exists());
    assert!(list(dir).unwrap().is_empty());
}

#[test]
fn data_of_another_generator_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(made(dir.path(), &["region"]), 1);
    let path = set_dir(dir.path(), SF).join(MANIFEST);
    let manifest = fs::read_to_string(&path).unwrap();
    fs::write(&path, manifest.replace(GENERATOR, "tpchgen 3.0.0")).unwrap();
    assert_eq!(made(dir.path(), &["region"]), 1);
}

#[test]
fn many_at_once_make_a_table_once() {
    let dir = tempfile::tempdir().unwrap();
    let sum: usize = std::thread::scope(|scope| {
        let one = || made(dir.path(), &["customer", "supplier"]);
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(sum, 2);
}

#[test]
fn making_and_removing_at_once_keep_out_of_each_other_s_way() {
    let dir = tempfile::tempdir().unwrap();
    // Temporary names have the process in them, so two of these threads that think they hold the lock break each other's
    // files.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..15 {
                    ensure(
                        dir.path(),
                        SF,
                        &["region"],
                        1,
                        &dpb_core::WallClock::default(),
                        &quiet,
                    )
                    .unwrap();
                    remove(dir.path(), SF, &["region"], &dpb_core::WallClock::default()).unwrap();
                }
            });
        }
    });
    assert!(list(dir.path()).unwrap().is_empty());
}

#[test]
fn a_manifest_that_cannot_be_written_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let set = set_dir(dir.path(), SF);
    fs::create_dir_all(set.join(MANIFEST)).unwrap();
    let failed = ensure(
        dir.path(),
        SF,
        &["region"],
        1,
        &dpb_core::WallClock::default(),
        &quiet,
    );
    assert!(matches!(failed, Err(DataError::Write { .. })), "{failed:?}");
    let names = fs::read_dir(&set).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".lock", MANIFEST, "region.dpbseg"]);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let ensure = |sf, table, threads| {
        ensure(
            dir.path(),
            sf,
            &[table],
            threads,
            &dpb_core::WallClock::default(),
            &quiet,
        )
    };
    for sf in [-1.0, 0.0, f64::NAN, f64::INFINITY, 1e9, 1e-9] {
        assert!(
            matches!(ensure(sf, "region", 1), Err(DataError::Usage(_))),
            "{sf}"
        );
    }
    assert!(matches!(
        ensure(SF, "nonsense", 1),
        Err(DataError::Usage(_))
    ));
    assert!(matches!(ensure(SF, "region", 0), Err(DataError::Usage(_))));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_a_table_needs_is_what_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let set = ensure(
        dir.path(),
        0.05,
        &TABLES,
        2,
        &dpb_core::WallClock::default(),
        &quiet,
    )
    .unwrap();
    for table in &set.tables {
        let needed = bytes_needed(0.05, [table.name.as_str()]);
        assert!(needed >= table.bytes, "{table:?} needs {needed}");
        assert!(
            needed <= 100_000 + table.bytes * 5 / 4,
            "{table:?} needs {needed}"
        );
        let rows = rows_expected(&table.name, 0.05);
        assert!(
            rows.abs_diff(table.rows) <= 1 + table.rows / 100,
            "{table:?} has {rows}"
        );
    }
    let error = DataError::Space {
        scale_factor: 1000.0,
        dir: PathBuf::from("/data"),
        needed: bytes_needed(1000.0, TABLES),
        free: 80_000_000_000,
    };
    assert_eq!(
        error.to_string(),
        "--sf 1000 needs 284 GB in /data, 80 GB free"
    );
}
