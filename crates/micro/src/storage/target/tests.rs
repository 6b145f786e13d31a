//! What is made, what is used again, and what is left alone.

use std::os::unix::fs::symlink;

use super::*;

fn laying(bytes: u64, seed: u64) -> Laying<'static> {
    static STOP: AtomicBool = AtomicBool::new(false);
    Laying {
        bytes,
        unit: 4096,
        seed,
        stop: &STOP,
    }
}

fn why(result: Result<Target, TargetError>) -> String {
    match result {
        Err(TargetError::Refused(why)) => why,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_file_is_made_kept_and_used_again_and_goes_when_it_is_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let laying_1 = laying(3 << 20, 1);
    let target = Target::of_file(&path, &laying_1, true).expect("made");
    let inode = fs::metadata(&path).expect("there").ino();
    assert!(why(Target::of_file(&path, &laying_1, true)).contains("another dpb"));
    drop(target);
    // Every unit is stamped.
    let bytes = fs::read(&path).expect("read");
    assert_eq!(bytes.len(), (3 << 20) + MARK_BYTES);
    Stamps::new(1, 4096)
        .check(&bytes[..3 << 20], 0, Some(0))
        .expect("right");
    // Used again as it is.
    drop(Target::of_file(&path, &laying_1, true).expect("used again"));
    assert_eq!(fs::metadata(&path).expect("there").ino(), inode);
    assert!(fs::read(&path).expect("read") == bytes);
    // Another seed and another size: laid out anew, in the same file.
    drop(Target::of_file(&path, &laying(1 << 20, 2), true).expect("laid out anew"));
    let bytes = fs::read(&path).expect("read");
    Stamps::new(2, 4096)
        .check(&bytes[..1 << 20], 0, Some(0))
        .expect("right");
    assert_eq!(fs::metadata(&path).expect("there").ino(), inode);
    // Not kept: without a name at once, and reachable all the same.
    let target = Target::of_file(&path, &laying(1 << 20, 2), false).expect("used again");
    assert!(!path.exists());
    assert_eq!(
        fs::read(target.path_for_others()).expect("read").len(),
        bytes.len()
    );
}

#[test]
fn what_dpb_did_not_make_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let refused = |path: &Path| why(Target::of_file(path, &laying(1 << 20, 1), false));
    let contents = [
        ("empty", Vec::new()),
        ("text", b"a person's".to_vec()),
        ("large", vec![7; 1 << 20]),
    ];
    for (name, bytes) in &contents {
        fs::write(at(name), bytes).expect("written");
        assert!(refused(&at(name)).contains("did not make"), "{name}");
        assert_eq!(&fs::read(at(name)).expect("read"), bytes);
    }
    // A mark that is not behind the data, or damaged, is none.
    let made = at("made");
    drop(Target::of_file(&made, &laying(1 << 20, 1), true).expect("made"));
    let bytes = fs::read(&made).expect("read");
    for (name, bytes) in [
        ("longer", [&bytes[..], &[0; 4096]].concat()),
        ("moved", bytes[4096..].to_vec()),
        ("damaged", {
            let mut bytes = bytes.clone();
            bytes[(1 << 20) + 21] ^= 1;
            bytes
        }),
    ] {
        fs::write(at(name), &bytes).expect("written");
        assert!(refused(&at(name)).contains("did not make"), "{name}");
        assert!(fs::read(at(name)).expect("read") == bytes);
    }
    symlink(&made, at("link")).expect("linked");
    assert!(refused(&at("link")).contains("did not make"));
    assert!(refused(folder.path()).contains("folder"));
    assert!(refused(&at("no/such/folder")).contains("mkdir"));
    assert!(made.exists() && at("link").exists());
}

#[test]
fn a_file_that_is_cut_short_in_the_making_is_not_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let stop = AtomicBool::new(true);
    let laying = Laying {
        stop: &stop,
        ..laying(1 << 20, 1)
    };
    for keep in [true, false] {
        let made = Target::of_file(&path, &laying, keep);
        assert!(matches!(made, Err(TargetError::Interrupted)));
        assert!(!path.exists());
    }
}

#[test]
fn only_a_kept_file_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    assert!(!Target::remove_kept(&path).expect("nothing is there"));
    let target = Target::of_file(&path, &laying(1 << 20, 1), true).expect("made");
    let why = Target::remove_kept(&path).expect_err("it is in use");
    assert!(why.to_string().contains("another dpb"), "{why}");
    drop(target);
    assert!(Target::remove_kept(&path).expect("removed"));
    assert!(!path.exists());
    fs::write(&path, "a person's").expect("written");
    assert!(matches!(
        Target::remove_kept(&path),
        Err(TargetError::Refused(_))
    ));
    assert!(path.exists());
}

#[test]
fn an_empty_file_is_removed_as_such_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    fs::write(&path, "").expect("written");
    // It may be a person's.
    assert!(Target::remove_kept(&path).is_err() && path.exists());
    let file = File::open(&path).expect("there");
    lock(&path, &file).expect("free");
    assert!(Target::remove_empty(&path).is_err(), "somebody uses it");
    drop(file);
    Target::remove_empty(&path).expect("removed");
    assert!(!path.exists());
    fs::write(&path, "not empty").expect("written");
    Target::remove_empty(&path).expect("nothing to do");
    assert!(path.exists());
}

#[test]
fn a_file_whose_data_are_about_to_change_is_not_used_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    drop(Target::of_file(&path, &laying(2 << 20, 1), true).expect("made"));
    let kept = open_kept(&path).expect("ours").expect("there");
    assert!(kept.mark == Mark::of(&laying(2 << 20, 1)));
    kept.spoil().expect("marked");
    drop(kept);
    let kept = open_kept(&path).expect("ours").expect("there");
    assert!(kept.mark != Mark::of(&laying(2 << 20, 1)));
}

#[test]
fn a_file_that_somebody_else_may_have_written_to_is_laid_out_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let target = Target::of_file(&path, &laying(1 << 20, 1), true).expect("made");
    target.give_up_contents().expect("marked");
    target.file.write_all_at(b"other", 0).expect("written");
    drop(target);
    drop(Target::of_file(&path, &laying(1 << 20, 1), true).expect("laid out anew"));
    let bytes = fs::read(&path).expect("read");
    Stamps::new(1, 4096)
        .check(&bytes[..1 << 20], 0, Some(0))
        .expect("right");
}

#[test]
fn more_than_there_is_room_for_is_refused_with_the_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    match Target::of_file(&path, &laying(1 << 60, 1), false) {
        Err(TargetError::NoSpace(why)) => {
            assert!(
                why.contains(&((1u64 << 60) + SPARE_BYTES).to_string()),
                "{why}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(!path.exists());
}

#[test]
fn only_block_devices_are_devices() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    fs::write(&path, "a person's").expect("written");
    for path in [&path, Path::new("/dev/null"), folder.path()] {
        assert!(why(Target::of_device(path, 1 << 20)).contains("no block device"));
        let destroy = Target::of_device_to_destroy(path, &laying(1 << 20, 1));
        assert!(why(destroy).contains("no block device"));
    }
    assert_eq!(fs::read(&path).expect("read"), b"a person's");
}
