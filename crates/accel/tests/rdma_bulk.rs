//! Both ends of a ring, on every RDMA device that is here: pieces arrive whole, in order, and no others do. `cargo xtask vm
//! rdma` runs this where there is soft-RoCE.

mod rdma_support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use dpb_accel::rdma::bulk::{self, Circumstances, PIECE_BYTES, PIECES, Receiver, Sender};
use dpb_core::WallClock;
use rdma_support::devices;

const LIMIT: Duration = Duration::from_secs(30);

fn circumstances(device: &str) -> Circumstances {
    Circumstances {
        device: Some(device.to_owned()),
        clock: Arc::new(WallClock::default()),
        seed: 1,
    }
}

fn ends(device: &str) -> (Sender, Receiver) {
    let (words, offered) = bulk::offer(circumstances(device)).expect("a ring");
    let (answer, sender) = bulk::accept(circumstances(device), &words).expect("a sender");
    let receiver = offered.open(&answer).expect("they reach each other");
    (sender, receiver)
}

fn bytes(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (i * 7 + number * 13 + (i >> 9)) as u8)
        .collect()
}

fn wait_for_piece(receiver: &mut Receiver) -> usize {
    let began = Instant::now();
    loop {
        if let Some(len) = receiver.arrived().expect("nothing breaks") {
            return len;
        }
        receiver.check().expect("the port is up");
        assert!(began.elapsed() < LIMIT, "nothing arrives");
    }
}

/// Lengths and places that are no words' of the machine's, and several times around the ring.
#[test]
fn pieces_arrive_whole_and_in_order() {
    let lengths = [
        1,
        7,
        8,
        63,
        4096,
        5001,
        70_003,
        PIECE_BYTES - 1,
        PIECE_BYTES,
    ];
    for device in devices() {
        let (mut sender, mut receiver) = ends(&device);
        assert_eq!(
            (sender.pieces(), sender.piece_bytes()),
            (PIECES, PIECE_BYTES)
        );
        assert_eq!(receiver.device(), device);
        assert_eq!(receiver.arrived(), Ok(None), "nothing was sent");
        let (mut written, mut taken) = (0, 0);
        let length = |number: u64| lengths[number as usize % lengths.len()];
        let all = 3 * u64::from(PIECES) + 5;
        while taken < all {
            // As far ahead as there is room.
            while written < all && written < taken + u64::from(PIECES) {
                let piece = bytes(written, length(written));
                let (head, rest) = piece.split_at(piece.len() / 3);
                let (middle, tail) = rest.split_at(rest.len() / 7);
                sender.write(&[head, &[], middle, tail]).expect("sound");
                written += 1;
            }
            let len = wait_for_piece(&mut receiver);
            assert_eq!(len, length(taken), "piece {taken}");
            let mut copied = vec![0; len];
            let odd = len.min(11);
            receiver.copy(odd, &mut copied[odd..]);
            receiver.copy(0, &mut copied[..odd]);
            assert!(copied == bytes(taken, len), "piece {taken}");
            receiver.release().expect("sound");
            taken += 1;
        }
        let began = Instant::now();
        while sender.in_flight().expect("sound") > 0 {
            assert!(began.elapsed() < LIMIT, "never acknowledged");
        }
        assert_eq!(receiver.arrived(), Ok(None), "no more than was sent");
    }
}

/// Whoever is gone is missed: its peer's next words end in the device's own.
#[test]
fn a_receiver_that_is_gone_breaks_the_senders_next_piece() {
    for device in devices() {
        let (mut sender, receiver) = ends(&device);
        drop(receiver);
        sender.write(&[&[1; 100]]).expect("posted");
        let began = Instant::now();
        let broken = loop {
            match sender.in_flight() {
                Ok(_) => assert!(began.elapsed() < LIMIT, "nobody misses it"),
                Err(broken) => break broken,
            }
        };
        println!("{device}: {broken}");
        assert_eq!(sender.write(&[&[1]]), Err(broken.clone()));
        assert_eq!(sender.in_flight(), Err(broken));
    }
}

#[test]
fn an_end_that_nobody_has_is_not_opened() {
    for device in devices() {
        let (words, offered) = bulk::offer(circumstances(&device)).expect("a ring");
        let (answer, sender) = bulk::accept(circumstances(&device), &words).expect("a sender");
        // It ends before its peer has seen it.
        drop(sender);
        let refused = offered.open(&answer).expect_err("nobody is there").reason;
        assert!(refused.contains("answer"), "{refused}");
    }
}
