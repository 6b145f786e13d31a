//! The same requests on every engine: bytes go where they should, failures are said.

use std::os::unix::fs::FileExt;

use super::*;
use crate::Runs;
use crate::storage::{Access, Fsync, Pattern};

const BLOCK: usize = 8192;

fn plan(engine: Engine, depth: u32, registered: bool) -> Plan {
    Plan {
        engine,
        pattern: Pattern::Random,
        access: Access::Read,
        block: BLOCK as u64,
        depth,
        jobs: 1,
        direct: false,
        sync: Fsync::Never,
        registered,
        verify: false,
        runs: Runs::default(),
        seed: 1,
    }
}

/// The engines that this machine has, and how many requests each takes at once; what is missing is said.
fn lanes(file: &File, depth: u32) -> Vec<(Box<dyn Lane>, usize)> {
    let engines = [
        (Engine::IoUring, depth, false),
        (Engine::IoUring, depth, true),
        (Engine::Libaio, depth, false),
        (Engine::Sync, 1, false),
    ];
    let mut lanes = Vec::new();
    for (engine, depth, registered) in engines {
        match open(&plan(engine, depth, registered), file, depth as usize) {
            Ok(lane) => lanes.push((lane, depth as usize)),
            Err(Broken::Unsupported(why)) => println!("skipped: {engine}: {why}"),
            Err(broken) => panic!("{broken}"),
        }
    }
    assert!(!lanes.is_empty());
    lanes
}

fn request(slot: usize, is_write: bool, offset: u64) -> Request {
    Request {
        slot,
        buffer: slot,
        is_write,
        offset,
    }
}

/// Hands over these requests, at most as many at once as the lane takes, and hears all.
fn carry_out(lane: &mut dyn Lane, requests: &[Request], at_once: usize) -> Vec<Done> {
    let mut all = Vec::new();
    for requests in requests.chunks(at_once) {
        let mut done = Vec::new();
        requests.iter().for_each(|request| lane.push(*request));
        while done.len() < requests.len() {
            lane.submit(&mut done).expect("submitted");
        }
        all.extend(done);
    }
    all
}

#[test]
fn every_engine_writes_and_reads_the_right_bytes() {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(8 * BLOCK as u64).expect("room");
    for (number, (mut lane, at_once)) in lanes(&file, 4).into_iter().enumerate() {
        let mark = number as u8 * 16;
        for slot in 0..at_once {
            lane.buffer(slot).fill(mark + slot as u8);
        }
        let writes: Vec<_> = (0..at_once)
            .map(|slot| request(slot, true, (slot * 2 * BLOCK) as u64))
            .collect();
        let done = carry_out(&mut *lane, &writes, at_once);
        assert!(
            done.iter()
                .all(|done| done.result.as_ref().is_ok_and(|bytes| *bytes == BLOCK))
        );
        for slot in 0..at_once {
            let mut bytes = vec![0; BLOCK];
            file.read_exact_at(&mut bytes, (slot * 2 * BLOCK) as u64)
                .expect("read");
            assert!(bytes.iter().all(|&byte| byte == mark + slot as u8));
            bytes.fill(mark + 8 + slot as u8);
            file.write_all_at(&bytes, (slot * 2 * BLOCK) as u64)
                .expect("written");
        }
        let reads: Vec<_> = (0..at_once)
            .map(|slot| request(slot, false, (slot * 2 * BLOCK) as u64))
            .collect();
        let mut slots: Vec<usize> = carry_out(&mut *lane, &reads, at_once)
            .iter()
            .map(|done| done.slot)
            .collect();
        slots.sort_unstable();
        assert_eq!(slots, (0..at_once).collect::<Vec<_>>());
        for slot in 0..at_once {
            assert!(
                lane.buffer(slot)
                    .iter()
                    .all(|&byte| byte == mark + 8 + slot as u8)
            );
        }
    }
}

#[test]
fn the_end_of_the_file_is_short_and_a_file_for_reading_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("short");
    std::fs::write(&path, vec![1; BLOCK + 100]).expect("written");
    let file = File::open(&path).expect("opened");
    for (mut lane, _) in lanes(&file, 1) {
        let short = carry_out(&mut *lane, &[request(0, false, BLOCK as u64)], 1);
        assert_eq!(short[0].result.as_ref().ok(), Some(&100));
        lane.push(request(0, true, 0));
        let mut done = Vec::new();
        // libaio says it at once, the others when it is done.
        match lane.submit(&mut done) {
            Ok(()) => assert!(done[0].result.is_err()),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EBADF)),
        }
    }
    assert_eq!(std::fs::read(&path).expect("read"), vec![1; BLOCK + 100]);
}

#[test]
fn a_lane_that_goes_waits_for_its_requests() {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(64 << 20).expect("room");
    for (mut lane, _) in lanes(&file, 32) {
        lane.push(request(0, false, 0));
        drop(lane);
    }
}
