//! Jobs and completions, to bytes and back.

use dpb_core::random::SplitMix64;
use dpb_core::{Batch, Buf, Buffers, Job, Memory};
use proptest::prelude::*;

use super::*;

/// A job over random bytes: items and slots of the form that `which` says.
fn job(which: u8, seed: u64) -> Job {
    let mut random = SplitMix64::new(seed);
    let mut below = |n: usize| random.below(n) as u32;
    let buf = |len: usize| {
        let mut buf = Buf::zeroed(len).expect("memory");
        let mut random = SplitMix64::new(seed ^ len as u64);
        buf.fill_with(|| random.below(256) as u8);
        buf
    };
    let count = 1 + below(5);
    let span = |buf: u32, start: u32, len: u32| Span { buf, start, len };
    let (src, items): (Memory, Items) = match which {
        0 => (buf(40).into(), Items::One),
        1 => {
            let (start, len, step) = (below(4), below(9), below(9));
            let (start, len, step, count) = (start, len, step, count);
            let stride = Stride {
                start,
                len,
                step,
                count,
            };
            (buf(60).into(), Items::Strided(stride))
        }
        2 => {
            let mut end = below(3);
            let offsets = (0..=count).map(|_| {
                end += below(7);
                end
            });
            let offsets: Vec<u32> = offsets.collect();
            (buf(60).into(), Items::Offsets(offsets.into()))
        }
        3 => {
            let spans = (0..count).map(|_| span(0, below(30), below(30)));
            let spans = spans.collect();
            (buf(60).into(), Items::Spans(spans))
        }
        _ => {
            let bufs = vec![buf(20), buf(0), buf(20)];
            let spans = (0..count).map(|_| span(2 * below(2), below(10), below(10)));
            let spans = spans.collect();
            (bufs.into(), Items::Spans(spans))
        }
    };
    let count = items.count();
    let lens: Vec<usize> = (0..count).map(|_| below(20) as usize).collect();
    let (slots, dst) = match which % 2 {
        0 => (Items::fixed(8, count as u32), buf(8 * count)),
        _ => {
            let bytes = lens.iter().sum();
            (Items::one_behind_another(lens), buf(bytes))
        }
    };
    Job::with_slots(seed, src, items, dst, slots, Vec::with_capacity(count))
}

/// The message of `parts`, read as the agent does: the head, the lists, the bytes of the items.
fn sent(parts: &JobParts, shape: OutputShape) -> (Encoded, Vec<u8>) {
    let mut message = Vec::new();
    let encoded = put_job(parts, shape, 7, usize::MAX, &mut message);
    let payload = encoded.body.payload.clone();
    if !payload.is_empty() {
        message.extend(&parts.input()[0][payload]);
    }
    (encoded, message)
}

fn read(message: &[u8]) -> Result<(JobHead, Items, Items, &[u8]), Malformed> {
    let mut from = Reader::new(message);
    let Header { tag, len } = Header::read(from.array()?)?;
    if tag != Tag::Job {
        return Err(Malformed("no job"));
    }
    let head = JobHead::read(from.array()?, len, false)?;
    let lists = from.bytes(head.list_bytes() as usize)?;
    let input = from.bytes(head.input_bytes as usize)?;
    from.end()?;
    let (items, slots) = Lists::default().read(&head, lists)?;
    Ok((head, items, slots, input))
}

proptest! {
    #[test]
    fn a_job_has_the_same_items_and_slots_at_the_other_end(which in 0..5_u8, seed in any::<u64>()) {
        let job = job(which, seed);
        let (encoded, message) = sent(&job, OutputShape::Variable);
        let (head, items, slots, input) = read(&message).expect("a job");
        prop_assert_eq!(head.id, 7);
        prop_assert_eq!(input.len(), encoded.input_bytes);
        prop_assert_eq!(slots_end(&slots), encoded.slot_bytes as u64);
        let (here, there) = (job.batch().unwrap(), Batch::new(input, &items).unwrap());
        prop_assert!(here.iter().eq(there.iter()));
        // Never more than the items have, or than the memory that they lie in.
        let held: usize = job.input().iter().map(|buf| buf.len()).sum();
        prop_assert!(input.len() <= here.bytes().max(1) || input.len() <= held);
        for i in 0..items.count() {
            let [ours, theirs] = [&job.slots, &slots].map(|slots| slots.place(i, &job.dst).len);
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn hostile_jobs_are_refused_or_lie_in_their_input(
        which in 0..5_u8,
        seed in any::<u64>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_, mut message) = sent(&job(which, seed), OutputShape::Variable);
        for (at, byte) in flips {
            let at = at.index(message.len());
            message[at] = byte;
        }
        if let Ok((head, items, slots, input)) = read(&message) {
            prop_assert!(Batch::new(input, &items).is_ok());
            prop_assert_eq!(items.count(), head.count as usize);
            prop_assert_eq!(slots.count(), head.count as usize);
        }
        let cut = cut.index(message.len());
        prop_assert!(read(&message[..cut]).is_err());
    }

    #[test]
    fn hostile_completions_do_no_harm(bytes in any::<[u8; DONE_HEAD_BYTES]>(), len in any::<usize>(), word in any::<u32>()) {
        if let Ok(head) = DoneHead::read(bytes, len) {
            prop_assert_eq!(head.rest, len - DONE_HEAD_BYTES);
        }
        let _ = read_outcome(word);
    }
}

#[test]
fn items_that_overlap_are_sent_once() {
    let buf = || Buf::zeroed(1000).expect("memory");
    let dst = || Buf::zeroed(0).expect("memory");
    let stride = Stride {
        start: 10,
        len: 100,
        step: 0,
        count: 50,
    };
    let spans = vec![
        Span {
            buf: 0,
            start: 3,
            len: 900
        };
        20
    ];
    for (items, bytes) in [(Items::Strided(stride), 100), (Items::Spans(spans), 900)] {
        let slots = Items::fixed(0, items.count() as u32);
        let job = Job::with_slots(0, buf(), items, dst(), slots, Vec::new());
        let (encoded, message) = sent(&job, OutputShape::Variable);
        assert_eq!(encoded.input_bytes, bytes);
        let (_, items, _, input) = read(&message).expect("a job");
        let batch = Batch::new(input, &items).expect("inside");
        assert!(batch.iter().eq(job.batch().expect("inside").iter()));
    }
}

#[test]
fn outputs_follow_their_outcomes() {
    let mut job = job(1, 3);
    let count = job.items.count();
    job.slots = Items::fixed(4, count as u32);
    let mut dst = Buf::zeroed(4 * count).expect("memory");
    dst.fill_with({
        let mut next = 0;
        move || {
            next += 1;
            next
        }
    });
    job.dst = Buffers::One(dst);
    job.outcomes.clear();
    job.outcomes.extend((0..count).map(|i| match i {
        0 => Ok(3),
        1 => Err(JobError::Device(-7)),
        _ => Err(JobError::Malformed),
    }));
    let mut message = Vec::new();
    let Body { payload, .. } = put_done(
        &job,
        Ok(()),
        OutputShape::Variable,
        9,
        usize::MAX,
        &mut message,
    );
    message.extend(&job.dst[0][payload]);
    let mut from = Reader::new(&message);
    let header = Header::read(from.array().unwrap()).expect("a header");
    assert_eq!(header.len, message.len() - HEADER_BYTES);
    let done = DoneHead::read(from.array().unwrap(), header.len).expect("a head");
    assert_eq!((done.id, done.result), (9, Ok(())));
    let mut outcomes = Vec::new();
    while outcomes.len() < count {
        outcomes.push(match read_outcome(from.u32().unwrap()).unwrap() {
            Word::Outcome(outcome) => outcome,
            Word::CodeFollows => Err(JobError::Device(from.i32().unwrap())),
        });
    }
    assert_eq!(outcomes, job.outcomes);
    assert_eq!(from.rest(), [1, 2, 3]);
}

#[test]
fn every_error_has_a_number() {
    let errors = [
        JobError::DstTooShort,
        JobError::Malformed,
        JobError::BadItems,
        JobError::ForeignBuffer,
        JobError::NotInPlace,
        JobError::TooLong,
        JobError::TooManyItems,
        JobError::BadOutcomes,
        JobError::Panicked,
        JobError::Device(-110),
    ];
    for error in errors {
        let (number, code) = number_of(error);
        assert_eq!(error_of(number, code), Ok(error));
    }
    assert!(error_of(0, 0).is_err());
    assert!(error_of(11, 0).is_err());
}
