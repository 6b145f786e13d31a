//! The verdicts, and how batches are made.

use super::*;

/// Several are right: any that is as long as the item. Feeds a byte of length before the user data.
struct Counted(OpSpec);

impl Workload for Counted {
    fn spec(&self) -> &OpSpec {
        &self.0
    }

    fn name(&self) -> &str {
        "by hand"
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let len = u8::try_from(plain.len()).map_err(|_| "255 at most".to_owned())?;
        Ok([&[len], plain].concat())
    }

    fn describe(&self, plain: &str) -> String {
        format!("{plain}, counted")
    }

    fn slot_bytes(&self, plain_len: usize) -> Option<usize> {
        Some(plain_len)
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        match item.split_first() {
            Some((&len, plain)) if usize::from(len) == plain.len() => Right::AnyValid,
            _ => Right::Refused(JobError::Malformed),
        }
    }

    fn approve(&self, item: &[u8], output: &[u8]) -> Result<(), String> {
        let is_right = output.len() == item.len() - 1;
        is_right.then_some(()).ok_or_else(|| "length".to_owned())
    }
}

fn counted() -> Counted {
    Counted(OpSpec::custom("counted", []))
}

fn echo() -> impl Workload {
    Exact::new(
        &OpSpec::custom("echo", []),
        "by hand",
        |item, _| match item {
            b"bad" => Err(JobError::Malformed),
            item => Ok(item.to_vec()),
        },
    )
}

#[test]
fn one_right_answer_is_the_only_one() {
    let check = |output, slot_bytes| echo().check(b"item", output, slot_bytes);
    assert_eq!(check(Ok(b"item"), 4), Ok(()));
    assert_eq!(
        check(Ok(b"itEm"), 4).unwrap_err(),
        "expected [69, 74, 65, 6d], got [69, 74, 45, 6d]: they part at byte 2"
    );
    assert!(check(Ok(b"ite"), 4).is_err());
    // Too short a slot is the one excuse, where it is one.
    assert_eq!(check(Err(JobError::DstTooShort), 3), Ok(()));
    assert!(check(Err(JobError::Malformed), 3).is_err());
    assert!(check(Err(JobError::DstTooShort), 4).is_err());
}

#[test]
fn what_is_bad_is_refused_with_any_error() {
    let check = |output| echo().check(b"bad", output, 4);
    assert_eq!(check(Err(JobError::Malformed)), Ok(()));
    assert_eq!(check(Err(JobError::Device(3))), Ok(()));
    assert!(check(Ok(b"bad")).is_err());
}

#[test]
fn where_several_are_right_the_workload_is_asked() {
    let check = |output| counted().check(b"\x03abc", output, 3);
    assert_eq!(check(Ok(b"xyz")), Ok(()));
    assert_eq!(check(Ok(b"xy")), Err("length".to_owned()));
    assert!(check(Err(JobError::DstTooShort)).is_err());
    assert!(counted().check(b"\x03ab", Ok(b"xyz"), 3).is_err());
    // Who has one answer only is never asked.
    assert!(echo().approve(b"item", b"item").is_err());
}

#[test]
fn a_batch_has_an_item_for_each_piece_of_user_data() {
    let plain = Input {
        what: "words".to_owned(),
        bytes: b"..onetwothree".to_vec(),
        items: Items::Offsets([2, 5, 8, 13].into()),
        slot_bytes: None,
    };
    let input = plain.fed(&counted()).unwrap();
    assert_eq!(input.what, "words, counted");
    assert_eq!(input.bytes, b"\x03one\x03two\x05three");
    assert_eq!(input.items, Items::Offsets([0, 4, 8, 14].into()));
    assert_eq!(input.slot_bytes, Some(5));

    let input = Input::of(&counted(), 1, 7, 3).unwrap();
    assert_eq!(input.items, Items::fixed(8, 3));
    let batch = input.batch().unwrap();
    assert!((0..3).all(|i| counted().right(batch.item(i), 7) == Right::AnyValid));
    assert_ne!(batch.item(0), batch.item(1));

    let said = Input::of(&counted(), 1, 256, 1).unwrap_err();
    assert_eq!(said, "counted of item 0, 256 bytes: 255 at most");
    let none = Input::of(&echo(), 1, 7, 0).unwrap();
    assert_eq!((none.bytes.len(), none.items.count()), (0, 0));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let [one, again, other] = [1, 1, 2].map(|seed| Input::random(seed, 13, 5).bytes);
    assert_eq!(one, again);
    assert_ne!(one, other);
    assert_eq!(one.len(), 65);
}

#[test]
fn items_are_levelled_only_if_they_differ() {
    let mut equal = [b"ab".to_vec(), b"cd".to_vec()];
    equalize_lengths(&mut equal);
    assert_eq!(equal, [b"ab".to_vec(), b"cd".to_vec()]);
    let mut mixed = [b"ab".to_vec(), b"c".to_vec()];
    equalize_lengths(&mut mixed);
    assert_eq!(mixed, [b"ab".to_vec(), b"ab".to_vec()]);
}

#[test]
fn seeds_in_a_row_spoil_in_different_ways() {
    let item = b"a good item of some length".to_vec();
    for start in 0..30 {
        let [mut cut, mut flipped, mut garbage] = [false; 3];
        for seed in start..start + 3 {
            let mut spoilt = item.clone();
            spoil(&mut spoilt, seed);
            assert_ne!(spoilt, item);
            let differ = spoilt.iter().zip(&item).filter(|(a, b)| a != b).count();
            match (spoilt.len() == item.len(), differ) {
                (false, 0) => cut = true,
                (true, 1) => flipped = true,
                (true, _) => garbage = true,
                other => panic!("{other:?}"),
            }
        }
        assert!(cut && flipped && garbage, "from {start}");
        spoil(&mut Vec::new(), start);
    }
}
