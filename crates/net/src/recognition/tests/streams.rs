//! What is put together, against a model that has one byte after another; and segments of a connection in every order.

use proptest::prelude::*;

use super::super::stream::{Assembly, Filled, Inserted, LONG_BYTES, Pool, SHORT_BYTES, Stream};

/// Bytes that are there, each as its first copy had it.
struct Model(Vec<Option<u8>>);

impl Model {
    fn front(&self) -> usize {
        self.0.iter().take_while(|byte| byte.is_some()).count()
    }

    fn insert(&mut self, start: usize, bytes: &[u8]) -> Inserted {
        let before = self.front();
        let mut has_news = false;
        let mut is_inside = false;
        for (at, byte) in (start..).zip(bytes) {
            if let Some(place) = self.0.get_mut(at) {
                is_inside = true;
                if place.is_none() {
                    *place = Some(*byte);
                    has_news = true;
                }
            }
        }
        match () {
            () if !is_inside && !bytes.is_empty() => Inserted::Dropped,
            () if !has_news => Inserted::Known,
            () if self.front() > before => Inserted::Grown,
            () => Inserted::Held,
        }
    }
}

proptest! {
    #[test]
    fn pieces_are_put_together_as_the_model_does(
        pieces in proptest::collection::vec(
            (0..300_usize, proptest::collection::vec(any::<u8>(), 0..90), 0..200_usize, 0..8_u8),
            1..120,
        ),
        behind in 0..2_usize,
    ) {
        // At the start of a block, or around its end.
        let first = behind * (LONG_BYTES - 250);
        let mut block = Assembly::new();
        let mut filled = Filled::default();
        let mut model = Model(vec![None; LONG_BYTES]);
        prop_assert_eq!(filled.insert(block.room(), 0, &vec![7; first]), model.insert(0, &vec![7; first]));
        for (start, bytes, by, choice) in pieces {
            let start = first + start;
            if choice == 0 {
                // The stream began earlier.
                let end = filled.end();
                let is_moved = filled.move_back(block.room(), by);
                prop_assert_eq!(is_moved, by > 0 && end + by <= LONG_BYTES);
                if is_moved {
                    model.0.rotate_right(by);
                }
            } else {
                // Mostly short pieces, so that there are many gaps.
                let bytes = &bytes[..bytes.len().min(usize::from(choice) * 3)];
                prop_assert_eq!(filled.insert(block.room(), start, bytes), model.insert(start, bytes));
            }
            prop_assert_eq!(filled.front(), model.front());
            let end = model.0.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            prop_assert_eq!(filled.end(), end);
        }
        for (place, byte) in model.0.iter().zip(block.bytes()) {
            prop_assert!(place.is_none_or(|place| place == *byte));
        }
    }

    /// Without a SYN the first packet that is seen may not be the first that was sent.
    #[test]
    fn a_connection_without_its_start_is_put_together(
        first: u32,
        lens in proptest::collection::vec(1..700_usize, 2..7),
        order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let text: Vec<u8> = (0..lens.iter().sum::<usize>()).map(|at| ((at * 7) >> 3) as u8).collect();
        let mut pool = Pool::new(1, 1);
        let mut stream = Stream::EMPTY;
        let starts: Vec<usize> = lens
            .iter()
            .scan(0, |at, len| { let start = *at; *at += len; Some(start) })
            .collect();
        for number in order.into_iter().filter(|number| *number < lens.len()) {
            let (start, len) = (starts[number], lens[number]);
            stream.segment(&mut pool, first.wrapping_add(start as u32), &text[start..start + len]);
        }
        prop_assert_eq!(stream.bytes(&pool), &text[..]);
        prop_assert_eq!(stream.base, first);
        stream.release(&mut pool);
        prop_assert_eq!(pool.left(), (1, 1));
    }
}

#[test]
fn a_block_grows_and_its_bytes_come_along() {
    let mut pool = Pool::new(2, 1);
    let mut stream = Stream::EMPTY;
    assert_eq!(stream.insert(&mut pool, 0, &[1; 10]), Inserted::Grown);
    assert_eq!(stream.insert(&mut pool, 20, &[2; 10]), Inserted::Held);
    assert_eq!(pool.left(), (1, 1));
    assert_eq!(
        stream.insert(&mut pool, SHORT_BYTES - 1, &[3; 5]),
        Inserted::Held
    );
    assert_eq!(pool.left(), (2, 0));
    assert_eq!(
        stream.insert(&mut pool, 10, &[4; LONG_BYTES]),
        Inserted::Grown
    );
    let bytes = stream.bytes(&pool);
    assert_eq!(bytes.len(), LONG_BYTES);
    assert_eq!(
        (
            bytes[9],
            bytes[10],
            bytes[20],
            bytes[SHORT_BYTES],
            bytes[LONG_BYTES - 1]
        ),
        (1, 4, 2, 3, 4)
    );
    assert_eq!(
        stream.insert(&mut pool, LONG_BYTES, &[5]),
        Inserted::Dropped
    );

    // A second stream finds no long block: what goes beyond a short one is dropped, the rest is there.
    let mut other = Stream::EMPTY;
    assert_eq!(
        other.insert(&mut pool, 0, &[6; SHORT_BYTES + 9]),
        Inserted::Grown
    );
    assert_eq!(other.bytes(&pool).len(), SHORT_BYTES);
    assert_eq!(
        other.insert(&mut pool, SHORT_BYTES, &[7]),
        Inserted::Dropped
    );
    stream.release(&mut pool);
    other.release(&mut pool);
    assert_eq!(pool.left(), (2, 1));
}

/// Every other piece of a long stream, then the rest: as many gaps as there may be, across the change to a longer block.
#[test]
fn gaps_are_not_limited_in_number() {
    let text: Vec<u8> = (0..LONG_BYTES).map(|at| ((at * 7) >> 3) as u8).collect();
    let mut pool = Pool::new(1, 1);
    let mut stream = Stream::EMPTY;
    for at in (1..LONG_BYTES).step_by(2) {
        let inserted = stream.insert(&mut pool, at, &text[at..at + 1]);
        assert_eq!(inserted, Inserted::Held, "{at}");
    }
    for at in (0..LONG_BYTES).step_by(2) {
        let inserted = stream.insert(&mut pool, at, &text[at..at + 1]);
        assert_eq!(inserted, Inserted::Grown, "{at}");
    }
    assert_eq!(stream.bytes(&pool), text);
}

#[test]
fn an_empty_pool_is_an_outcome() {
    let mut pool = Pool::new(0, 0);
    let mut stream = Stream::EMPTY;
    assert_eq!(stream.segment(&mut pool, 7, b"abc"), Inserted::Dropped);
    assert_eq!(stream.bytes(&pool), b"");
}
