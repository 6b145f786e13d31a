//! What one connection holds in memory, by an allocator that counts bytes. Alone in its program, so that all that is counted is of the two ends.
//!
//! Counted are both ends' allocations in Rust. Not counted: stacks of threads, the kernel's buffers, and what AWS-LC allocates in C.

#![cfg(feature = "tls")]
#![allow(unsafe_code)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

use dpb_link::{Access, AgentOptions, Link, echo};
use support::{Serving, credentials, echoing, loopback, pass};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that are allocated now.
static BYTES: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, with a count of the bytes that it has given and not got back.
struct Counting;

// SAFETY: every call is the system allocator's own. Reallocations come as the two others.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

const CONNECTIONS: usize = 50;

/// Bytes of a connection, both ends together.
#[derive(Debug)]
struct Held {
    /// After the handshake.
    fresh: i64,
    /// After an echo of 1 MiB.
    used: i64,
}

fn held(access: Access) -> Held {
    let serving = Serving::with(AgentOptions {
        access: access.clone(),
        connections_max: CONNECTIONS as u32 + 1,
        ..AgentOptions::new(loopback())
    });
    let connect = || echoing(&serving.address, pass(&access)).expect("an agent");
    // What is made once for all.
    let mut first = connect();
    round_trip(&mut first);
    let each = |before: i64, now: i64| (now - before) / CONNECTIONS as i64;
    let before = BYTES.load(Ordering::Relaxed);
    let mut links: Vec<Link> = (0..CONNECTIONS).map(|_| connect()).collect();
    let fresh = each(before, BYTES.load(Ordering::Relaxed));
    links.iter_mut().for_each(round_trip);
    Held {
        fresh,
        used: each(before, BYTES.load(Ordering::Relaxed)),
    }
}

fn round_trip(link: &mut Link) {
    echo::round_trip(link, &[7; 1 << 20]).expect("an echo");
    // The agent answers this once it has dropped the long one.
    echo::round_trip(link, &[7]).expect("an echo");
}

/// Prints the figures with `--nocapture`.
#[test]
fn an_encrypted_connection_holds_its_buffers_and_little_more() {
    let plain = held(Access::Anyone);
    let encrypted = held(Access::Credentials(credentials()));
    println!("plain: {plain:?}");
    println!("encrypted: {encrypted:?}");
    // Each end reads by a buffer of 64 KiB, and that is the most of it.
    let added = encrypted.fresh - plain.fresh;
    assert!((2 * (64 << 10)..200 << 10).contains(&added), "{added}");
    // Bytes that have gone through stay nowhere: what remains is bounded by a few records of 16 KiB.
    let kept = encrypted.used - plain.used - added;
    assert!(kept < 128 << 10, "{kept}");
}
