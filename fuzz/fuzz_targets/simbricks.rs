//! Intros of SimBricks' protocol from arbitrary bytes: what is read is written as it was, and its rings lie in the memory that it was checked against, apart.
#![no_main]

use dpb_sim::simbricks::{ConnecterIntro, Direction, ListenerIntro, RingPlace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    if let Ok(intro) = ConnecterIntro::decode(input) {
        assert_eq!(intro.encode()[..32], input[..32]);
    }
    let Ok(intro) = ListenerIntro::decode(input) else {
        return;
    };
    assert_eq!(intro.encode()[..80], input[..80]);
    let forth = intro.to_connecter.bytes(Direction::ToConnecter).expect("was read");
    let back = intro.to_listener.bytes(Direction::ToListener).expect("was read");
    assert!(forth.end <= back.start || back.end <= forth.start, "overlap");
    let last = forth.end.max(back.end);
    assert!(intro.check_inside(last).is_ok());
    assert!(intro.check_inside(last - 1).is_err());
});

/// An intro of each side.
fn seeds() -> Vec<Vec<u8>> {
    let place = |offset| RingPlace {
        offset,
        entry_bytes: 1600,
        entries: 8192,
    };
    let listener = ListenerIntro {
        flags: 1,
        to_connecter: place(13_107_200),
        to_listener: place(0),
    };
    let connecter = ConnecterIntro { flags: 3 };
    vec![listener.encode().to_vec(), connecter.encode().to_vec()]
}
