//! The intros' bytes.

use dpb_sim::simbricks::{ConnecterIntro, Direction, IntroError, ListenerIntro, RingPlace};
use proptest::prelude::*;

use crate::raw_peer::message;

/// The words of the listener's intro that SimBricks' own switch sends.
const SWITCH: [u64; 10] = [1, 1, 13_107_200, 1600, 8192, 0, 1600, 8192, 1, 80];
/// The words of the one that its model of a network card sends on PCIe; 119 bytes follow.
const CARD: [u64; 10] = [1, 0, 100_663_296, 9088, 8192, 26_214_400, 9088, 8192, 2, 80];

#[test]
fn the_switch_s_intro_is_read_and_written() {
    let intro = ListenerIntro {
        flags: 1,
        to_connecter: RingPlace {
            offset: 13_107_200,
            entry_bytes: 1600,
            entries: 8192,
        },
        to_listener: RingPlace {
            offset: 0,
            entry_bytes: 1600,
            entries: 8192,
        },
    };
    let bytes = message(&SWITCH, 4);
    assert_eq!(bytes.len(), 84);
    assert_eq!(ListenerIntro::decode(&bytes), Ok(intro));
    assert_eq!(intro.encode().as_slice(), bytes);
    assert_eq!(intro.check_inside(26_214_400), Ok(()));
    let outside = IntroError::Outside {
        ring: Direction::ToConnecter,
        end: 26_214_400,
        memory_bytes: 26_214_399,
    };
    assert_eq!(intro.check_inside(26_214_399), Err(outside));
}

#[test]
fn the_connecter_s_intro_is_read_and_written() {
    for flags in [0, 1, 3] {
        let bytes = message(&[1, flags, 1, 32], 4);
        assert_eq!(bytes.len(), 36);
        assert_eq!(ConnecterIntro::decode(&bytes), Ok(ConnecterIntro { flags }));
        assert_eq!(ConnecterIntro { flags }.encode().as_slice(), bytes);
    }
}

#[test]
fn the_bytes_behind_are_not_looked_at() {
    let mut bytes = message(&SWITCH, 4);
    let intro = ListenerIntro::decode(&bytes);
    bytes[80..].fill(0xff);
    assert_eq!(ListenerIntro::decode(&bytes), intro);
}

#[test]
fn a_card_on_pcie_is_not_ethernet() {
    let bytes = message(&CARD, 119);
    assert_eq!(bytes.len(), 199);
    assert_eq!(ListenerIntro::decode(&bytes), Err(IntroError::Protocol(2)));
}

#[test]
fn each_wrong_length_is_an_error() {
    let (listener, connecter) = (message(&SWITCH, 20), message(&[1, 1, 1, 32], 20));
    for bytes in (0..=100).filter(|&bytes| bytes != 84) {
        let wrong = IntroError::Length {
            bytes,
            expected: 84,
        };
        assert_eq!(ListenerIntro::decode(&listener[..bytes]), Err(wrong));
    }
    for bytes in (0..=52).filter(|&bytes| bytes != 36) {
        let wrong = IntroError::Length {
            bytes,
            expected: 36,
        };
        assert_eq!(ConnecterIntro::decode(&connecter[..bytes]), Err(wrong));
    }
}

/// The error of the switch's intro with other words.
fn spoilt(words: &[(usize, u64)]) -> IntroError {
    let mut intro = SWITCH;
    for &(at, word) in words {
        intro[at] = word;
    }
    ListenerIntro::decode(&message(&intro, 4)).unwrap_err()
}

#[test]
fn each_wrong_field_is_its_error() {
    use Direction::{ToConnecter, ToListener};
    assert_eq!(spoilt(&[(0, 0)]), IntroError::Version(0));
    assert_eq!(spoilt(&[(0, 2)]), IntroError::Version(2));
    assert_eq!(spoilt(&[(1, 4)]), IntroError::Flags(4));
    assert_eq!(spoilt(&[(1, 1 << 63)]), IntroError::Flags(1 << 63));
    for protocol in [0, 2, 3, u64::MAX] {
        assert_eq!(spoilt(&[(8, protocol)]), IntroError::Protocol(protocol));
    }
    for offset in [0, 79, 81, u64::MAX] {
        let expected = 80;
        let wrong = IntroError::UpperOffset { offset, expected };
        assert_eq!(spoilt(&[(9, offset)]), wrong);
    }
    for (ring, at) in [(ToConnecter, 2), (ToListener, 5)] {
        for bytes in [0, 8, 63] {
            let wrong = IntroError::EntryTooShort { ring, bytes };
            assert_eq!(spoilt(&[(at + 1, bytes)]), wrong);
        }
        assert_eq!(spoilt(&[(at + 2, 0)]), IntroError::NoEntries { ring });
        let misaligned = |offset, entry_bytes| IntroError::Misaligned {
            ring,
            offset,
            entry_bytes,
        };
        let offset = SWITCH[at];
        assert_eq!(spoilt(&[(at, offset + 4)]), misaligned(offset + 4, 1600));
        assert_eq!(spoilt(&[(at + 1, 1601)]), misaligned(offset, 1601));
        let too_large = |offset, entry_bytes, entries| IntroError::TooLarge {
            ring,
            offset,
            entry_bytes,
            entries,
        };
        let last = u64::MAX - 7;
        assert_eq!(spoilt(&[(at, last)]), too_large(last, 1600, 8192));
        assert_eq!(spoilt(&[(at + 1, last)]), too_large(offset, last, 8192));
        assert_eq!(
            spoilt(&[(at + 2, u64::MAX)]),
            too_large(offset, 1600, u64::MAX)
        );
    }
    assert_eq!(spoilt(&[(2, 0)]), IntroError::Overlap);
    assert_eq!(spoilt(&[(2, 13_107_192)]), IntroError::Overlap);
    assert_eq!(spoilt(&[(5, 26_214_392)]), IntroError::Overlap);
    assert_eq!(spoilt(&[(4, 1), (2, 1600)]), IntroError::Overlap);
}

#[test]
fn each_wrong_field_of_a_connecter_is_its_error() {
    let decode = |words: [u64; 4]| ConnecterIntro::decode(&message(&words, 4)).unwrap_err();
    assert_eq!(decode([2, 1, 1, 32]), IntroError::Version(2));
    assert_eq!(decode([1, 8, 1, 32]), IntroError::Flags(8));
    assert_eq!(decode([1, 1, 3, 32]), IntroError::Protocol(3));
    let wrong = IntroError::UpperOffset {
        offset: 36,
        expected: 32,
    };
    assert_eq!(decode([1, 1, 1, 36]), wrong);
}

/// Words that are often wrong.
fn word() -> impl Strategy<Value = u64> {
    let special = prop::sample::select(vec![
        0,
        1,
        2,
        3,
        7,
        8,
        63,
        64,
        80,
        1600,
        8192,
        9088,
        u64::MAX,
        u64::MAX - 7,
        1 << 63,
        1 << 32,
    ]);
    prop_oneof![special, any::<u64>(), 0_u64..4096]
}

/// Checks that what is read is written as it was, the last four bytes aside.
fn check_either(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(intro) = ListenerIntro::decode(bytes) {
        prop_assert_eq!(&intro.encode()[..80], &bytes[..80]);
        let _ = intro.check_inside(4096);
    }
    if let Ok(intro) = ConnecterIntro::decode(bytes) {
        prop_assert_eq!(&intro.encode()[..32], &bytes[..32]);
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        check_either(&bytes)?;
    }

    #[test]
    fn spoilt_intros_are_read_without_a_panic(
        words in prop::collection::vec((0_usize..10, word()), 0..6),
        len in prop_oneof![Just(84_usize), 0_usize..200],
    ) {
        let mut intro = SWITCH;
        for (at, word) in words {
            intro[at] = word;
        }
        let mut bytes = message(&intro, 120);
        bytes.truncate(len);
        check_either(&bytes)?;
    }

    #[test]
    fn valid_intros_are_read_as_they_were(
        flags in 0_u64..4,
        start in 0_u64..1000,
        gap in 0_u64..1000,
        words in [8_u64..2000, 8_u64..2000],
        entries in [1_u64..10_000, 1_u64..10_000],
        listener_first: bool,
    ) {
        let first = RingPlace { offset: start * 8, entry_bytes: words[0] * 8, entries: entries[0] };
        let offset = first.offset + first.entry_bytes * first.entries + gap * 8;
        let second = RingPlace { offset, entry_bytes: words[1] * 8, entries: entries[1] };
        let (to_listener, to_connecter) = if listener_first { (first, second) } else { (second, first) };
        let intro = ListenerIntro { flags, to_connecter, to_listener };
        prop_assert_eq!(ListenerIntro::decode(&intro.encode()), Ok(intro));
        let end = offset + second.entry_bytes * second.entries;
        prop_assert!(intro.check_inside(end).is_ok());
        prop_assert!(intro.check_inside(end - 1).is_err());
    }
}
