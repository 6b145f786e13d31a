//! The handshake: names, waiting, and what the two sides agree on.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use dpb_sim::simbricks::{Error, LinkParams, Listener, RingShape, SyncMode, connect};
use tempfile::tempdir;

use crate::drive::{PATIENCE, params};

/// Too short for anything to come.
const SHORT: Duration = Duration::from_millis(30);
const SMALL: RingShape = RingShape {
    entries: 4,
    entry_bytes: 128,
};

fn bind(path: &Path) -> Result<Listener, Error> {
    Listener::bind(path, SMALL, LinkParams::default())
}

/// A path of so many bytes.
fn path_of(folder: &Path, bytes: usize) -> PathBuf {
    let name = bytes - folder.as_os_str().len() - 1;
    folder.join("n".repeat(name))
}

#[test]
fn modes_agree_as_the_protocol_says() {
    use SyncMode::{Disabled, Optional, Required};
    let folder = tempdir().unwrap();
    let path = folder.path().join("link");
    for listener in [Disabled, Optional, Required] {
        for connecter in [Disabled, Optional, Required] {
            let side = |sync| params(sync, 500_000, 500_000);
            let bound = Listener::bind(&path, SMALL, side(listener)).unwrap();
            let [a, b] = thread::scope(|scope| {
                let other = scope.spawn(|| connect(&path, side(connecter), PATIENCE));
                [bound.accept(PATIENCE), other.join().unwrap()]
            });
            let is_error = [(listener, &a, connecter), (connecter, &b, listener)];
            for (mode, result, peer) in is_error {
                match (mode, peer) {
                    (Disabled, Required) => assert!(matches!(result, Err(Error::SyncForced))),
                    (Required, Disabled) => assert!(matches!(result, Err(Error::SyncNotOffered))),
                    _ => {
                        let wanted = mode != Disabled && peer != Disabled;
                        assert_eq!(result.as_ref().unwrap().is_synchronised(), wanted);
                    }
                }
            }
        }
    }
}

#[test]
fn an_offer_by_force_alone_is_an_offer() {
    assert!(SyncMode::Optional.agree(2).unwrap());
    assert!(SyncMode::Required.agree(2).unwrap());
    assert!(SyncMode::Disabled.agree(2).is_err());
    assert!(!SyncMode::Disabled.agree(1).unwrap());
}

#[test]
fn names_of_107_bytes_work_and_longer_ones_are_refused() {
    let folder = tempdir().unwrap();
    let path = path_of(folder.path(), 107);
    assert_eq!(path.as_os_str().as_bytes().len(), 107);
    let listener = bind(&path).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| connect(&path, LinkParams::default(), PATIENCE));
        listener.accept(PATIENCE).unwrap();
        other.join().unwrap().unwrap();
    });
    let path = path_of(folder.path(), 108);
    let refused = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::PathTooLong { bytes: 108, .. })));
    };
    refused(bind(&path).map(drop));
    refused(connect(&path, LinkParams::default(), SHORT).map(drop));
}

#[test]
fn paths_that_name_no_file_are_refused() {
    for path in ["", "/", "..", "a\0b"] {
        let result = bind(Path::new(path));
        assert!(matches!(result, Err(Error::NotAPath(_))), "{path:?}");
    }
}

#[test]
fn a_connecter_waits_for_its_listener() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("late");
    thread::scope(|scope| {
        let other = scope.spawn(|| connect(&path, LinkParams::default(), PATIENCE));
        thread::sleep(SHORT);
        bind(&path).unwrap().accept(PATIENCE).unwrap();
        other.join().unwrap().unwrap();
    });
}

#[test]
fn waiting_ends() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("nobody");
    let timeout = |result: Result<_, Error>| assert!(matches!(result, Err(Error::Timeout { .. })));
    timeout(connect(&path, LinkParams::default(), SHORT).map(drop));
    timeout(bind(&path).unwrap().accept(SHORT).map(drop));
    let listener = bind(&path).unwrap();
    let silent = UnixStream::connect(&path).unwrap();
    timeout(listener.accept(SHORT).map(drop));
    drop(silent);
    let listener = bind(&path).unwrap();
    drop(UnixStream::connect(&path).unwrap());
    let result = listener.accept(PATIENCE).map(drop);
    assert!(
        matches!(result, Err(Error::ClosedBeforeIntro)),
        "{result:?}"
    );
}

#[test]
fn a_socket_s_file_goes_with_its_listener_alone() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("link");
    let names = || fs::read_dir(folder.path()).unwrap().count();
    let listener = bind(&path).unwrap();
    assert_eq!(listener.path(), path);
    assert_eq!(names(), 1, "another name is left");
    // What is there is not replaced, and nothing else is left behind.
    let result = bind(&path).map(drop);
    assert!(matches!(result, Err(Error::System { .. })), "{result:?}");
    assert_eq!(names(), 1);
    drop(listener);
    assert_eq!(names(), 0);
    let listener = bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "of somebody else").unwrap();
    drop(listener);
    assert_eq!(fs::read(&path).unwrap(), b"of somebody else");
}

#[test]
fn parameters_out_of_range_are_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("link");
    let parameter = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::Parameter(_))), "{result:?}");
    };
    for (latency, interval) in [(0, 0), (0, 1), (1, 0), (499_999, 500_000)] {
        let side = params(SyncMode::Optional, latency, interval);
        parameter(Listener::bind(&path, SMALL, side).map(drop));
        parameter(connect(&path, side, SHORT).map(drop));
    }
    for (entries, entry_bytes) in [(0, 1600), (8, 56), (8, 1601), (u64::MAX, 1600)] {
        let shape = RingShape {
            entries,
            entry_bytes,
        };
        parameter(Listener::bind(&path, shape, LinkParams::default()).map(drop));
    }
    // More than there are addresses.
    let shape = RingShape {
        entries: 1 << 50,
        entry_bytes: 1600,
    };
    let result = Listener::bind(&path, shape, LinkParams::default()).map(drop);
    assert!(matches!(result, Err(Error::System { .. })), "{result:?}");
}
