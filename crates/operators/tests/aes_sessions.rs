//! AES with a key for each session: every mode computes items of any keys beside each other as one key computes each alone.

use dpb_core::random::SplitMix64;
use dpb_core::{
    Batch, BatchOut, Buf, Direction, InPlace, Items, JobError, Material, OpSpec, SetupError, Span,
    spec,
};
use dpb_operators::cpu::Implementation;
use dpb_operators::direct::Direct;
use dpb_operators::registry;
use dpb_operators::security::aes::Aes;

/// A key of 256 bits, and two of 128, for XTS.
const TWO_KEYS: &[u8; 32] = b"one of 128 bits another 128 bits";

/// In all modes of AES, apart and in place: keys of one length or of two, the first item's key of either; fewer items than go side by side,
/// and more; items of no session, too short, with a wrong tag, with a slot that is too short. An item is refused alone, and what one walk
/// over the items refuses or computes, the walk for the other length of keys leaves as it is.
#[test]
fn keys_of_any_length_in_all_modes_of_aes() {
    let mut random = SplitMix64::new(2);
    for mode in &MODES {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            for lens in [&[16][..], &[32], &[16, 32, 32, 16, 16, 32, 32]] {
                let mut contest = Contest::new(mode, direction, lens, &mut random);
                let last = lens.len() - 1;
                let mut seen = Vec::new();
                for (count, first) in [(1, 0), (17, 0), (300, 0), (300, last)] {
                    let mut batch = Vec::new();
                    for i in 0..count {
                        let session = if i == 0 {
                            first
                        } else {
                            random.below(lens.len())
                        };
                        let len = random.below(320);
                        let mut item = contest.item(session, len, &mut random);
                        if i > 0 {
                            contest.spoil(&mut item, &mut random);
                        }
                        batch.push(contest.asked(item, i % 8 == 5));
                    }
                    contest.assert_right(&batch);
                    for Asked { item, right, .. } in &batch {
                        let bytes = lens.get(session_of(item));
                        let walk = bytes.map(|bytes| *bytes == lens[first]);
                        seen.push((walk, right.as_ref().err().copied()));
                    }
                }
                for walk in lens.iter().map(|len| Some(*len == lens[0])) {
                    let short = Some(JobError::DstTooShort);
                    for outcome in [None, Some(JobError::Malformed), short] {
                        assert!(seen.contains(&(walk, outcome)), "{walk:?} {outcome:?}");
                    }
                }
                // Items and slots at a stride have loops of their own.
                for first in [0, last] {
                    let (mut batch, mut session) = (Vec::new(), first);
                    for i in 0..40 {
                        let mut item = contest.item(session, 160, &mut random);
                        // A wrong tag, where there are tags: refused among items that are not.
                        if i % 5 == 4
                            && let Some(last) = item.last_mut()
                        {
                            *last ^= 1;
                        }
                        batch.push(contest.asked(item, false));
                        // Or none.
                        session = random.below(lens.len() + 1);
                    }
                    contest.assert_right(&batch);
                }
                // All slots too short; all items too short for a number, for what stands in front of a text, for a block or a tag; all without a byte.
                let before_text = 4 + mode.head;
                for cut in [
                    None,
                    Some(3),
                    Some(before_text - 1),
                    Some(before_text + 15),
                    Some(before_text + 31),
                ] {
                    let mut batch = Vec::new();
                    for i in 0..20 {
                        let mut item = contest.item(i % lens.len(), 32, &mut random);
                        item.truncate(cut.unwrap_or(item.len()));
                        batch.push(contest.asked(item, cut.is_none()));
                    }
                    contest.assert_right(&batch);
                    let too_short = Err(JobError::DstTooShort);
                    assert!(cut.is_some() || batch.iter().all(|asked| asked.right == too_short));
                }
            }
        }
    }
}

/// A path that this machine has not is refused as such also where no session is there yet, whose key would need it.
#[test]
fn a_path_that_is_missing_is_refused_before_the_first_session() {
    let mut count = 0;
    for mode in &MODES {
        let of = (mode.spec)(Direction::Encrypt, Material::secret(*TWO_KEYS));
        let keys = Vec::new();
        let spec = OpSpec::from(spec::Sessions { of, keys });
        let entry = registry::of(&spec).expect("registered");
        for &path in entry.paths {
            let made = entry.direct(&spec, path).map(|_| ());
            if path.is_available() {
                assert_eq!(made, Ok(()), "{path}");
                continue;
            }
            count += 1;
            let why = made.expect_err("missing");
            let is_missing =
                matches!(&why, SetupError::Unsupported(why) if why.reason.starts_with("needs "));
            assert!(is_missing, "{path}: {why}");
        }
    }
    assert!(
        count > 0,
        "no CPU has the instructions of x86-64 and of Arm"
    );
}

/// A mode of AES.
struct Mode {
    spec: fn(Direction, Material) -> OpSpec,
    /// Keys that its key is made of.
    keys: usize,
    /// Bytes in front of a text.
    head: usize,
    /// What the length of a text is a multiple of.
    unit: usize,
}

const MODES: [Mode; 4] = [
    Mode {
        spec: |direction, key| {
            let aad_bytes = 20;
            let gcm = spec::AesGcm {
                direction,
                aad_bytes,
                key,
            };
            gcm.into()
        },
        keys: 1,
        head: 12 + 20,
        unit: 1,
    },
    Mode {
        spec: |_, key| spec::AesCtr { key }.into(),
        keys: 1,
        head: 16,
        unit: 1,
    },
    Mode {
        spec: |direction, key| spec::AesCbc { direction, key }.into(),
        keys: 1,
        head: 16,
        unit: 16,
    },
    Mode {
        spec: |direction, key| spec::AesXts { direction, key }.into(),
        keys: 2,
        head: 16,
        unit: 1,
    },
];

/// A mode with sessions, on each path; what is right says the portable path with one key.
struct Contest<'a> {
    mode: &'a Mode,
    direction: Direction,
    /// The encryption with each session's key.
    sealing: Vec<Aes>,
    alone: Vec<Aes>,
    kernels: Vec<(Implementation, Box<dyn Direct>)>,
}

/// An item, bytes of its slot, and its right output.
struct Asked {
    item: Vec<u8>,
    slot_bytes: usize,
    right: Result<Vec<u8>, JobError>,
}

impl<'a> Contest<'a> {
    fn new(
        mode: &'a Mode,
        direction: Direction,
        key_lens: &[usize],
        random: &mut SplitMix64,
    ) -> Self {
        let key = |len: &usize| Material::secret(bytes(random, len * mode.keys));
        let keys: Vec<Material> = key_lens.iter().map(key).collect();
        let alone = |direction| -> Vec<Aes> {
            let specs = keys.iter().map(|key| (mode.spec)(direction, key.clone()));
            specs
                .map(|spec| Aes::new(&spec, Implementation::Portable).expect("any CPU"))
                .collect()
        };
        let (sealing, alone) = (alone(Direction::Encrypt), alone(direction));
        let of = (mode.spec)(direction, keys[0].clone());
        let spec = OpSpec::from(spec::Sessions { of, keys });
        let entry = registry::of(&spec).expect("registered");
        let paths = entry.paths.iter().filter(|path| path.is_available());
        let kernel =
            |path: &Implementation| (*path, entry.direct(&spec, *path).expect("available"));
        Self {
            mode,
            direction,
            sealing,
            alone,
            kernels: paths.map(kernel).collect(),
        }
    }

    /// An item of this session, valid if there is such a session and the mode takes its text, which has up to `len` bytes.
    fn item(&self, session: usize, len: usize, random: &mut SplitMix64) -> Vec<u8> {
        let Mode { head, unit, .. } = *self.mode;
        let mut rest = bytes(random, head + len / unit * unit);
        let aes = &self.sealing[session % self.sealing.len()];
        if self.direction == Direction::Decrypt
            && let Ok(sealed) = aes.one(&rest)
        {
            rest.truncate(head);
            rest.extend(sealed);
        }
        [&(session as u32).to_le_bytes(), &rest[..]].concat()
    }

    /// Of some items makes others: of no session, another tag or text, without the last byte, with nothing but a part of what stands in front
    /// of a text.
    fn spoil(&self, item: &mut Vec<u8>, random: &mut SplitMix64) {
        match random.below(16) {
            0 => item[..4].fill(0xff),
            1 => *item.last_mut().expect("not empty") ^= 1,
            2 => item.truncate(item.len() - 1),
            3 => item.truncate(random.below(4 + self.mode.head)),
            _ => {}
        }
    }

    /// The item with a slot for the longest output that it can have, or, if it has an output, one that is a byte too short.
    fn asked(&self, item: Vec<u8>, is_short: bool) -> Asked {
        let right = match self.alone.get(session_of(&item)) {
            Some(aes) => aes.one(&item[4..]),
            None => Err(JobError::Malformed),
        };
        let (_, kernel) = &self.kernels[0];
        let slot_bytes = kernel.dst_len(item.len());
        match right {
            Ok(output) if is_short && !output.is_empty() => Asked {
                item,
                slot_bytes: output.len() - 1,
                right: Err(JobError::DstTooShort),
            },
            right => Asked {
                item,
                slot_bytes,
                right,
            },
        }
    }

    fn assert_right(&mut self, batch: &[Asked]) {
        let offset = 4 + self.mode.head;
        for (path, kernel) in &mut self.kernels {
            for Asked { item, right, .. } in batch {
                let slot_bytes = kernel.dst_len(item.len());
                let output_bytes = right.as_ref().map_or(0, Vec::len);
                assert!(slot_bytes >= output_bytes, "{path}");
            }
            let (apart, in_place) = (
                apart(&mut **kernel, batch),
                in_place(&mut **kernel, batch, offset),
            );
            for (i, Asked { item, right, .. }) in batch.iter().enumerate() {
                let of = format!("{path}, item {i} of {}, {} bytes", batch.len(), item.len());
                assert_eq!(&apart[i], right, "{of}");
                assert_eq!(&in_place[i], right, "in place, {of}");
            }
        }
    }
}

/// Outputs with items and slots somewhere else, each at a stride if all have one length.
fn apart(kernel: &mut dyn Direct, batch: &[Asked]) -> Vec<Result<Vec<u8>, JobError>> {
    let laid_out = |lens: &[usize]| match lens.iter().all(|len| *len == lens[0]) {
        true => Items::fixed(lens[0] as u32, lens.len() as u32),
        false => Items::one_behind_another(lens.iter().copied()),
    };
    let items: Vec<&[u8]> = batch.iter().map(|asked| &asked.item[..]).collect();
    let lens: Vec<usize> = batch.iter().map(|asked| asked.slot_bytes).collect();
    let src = items.concat();
    let (items, slots) = (
        laid_out(&items.iter().map(|item| item.len()).collect::<Vec<_>>()),
        laid_out(&lens),
    );
    let mut dst = vec![0; lens.iter().sum()];
    let mut outcomes = Vec::with_capacity(batch.len());
    let out = BatchOut::new(&mut dst, &slots, &mut outcomes).expect("inside");
    let items = Batch::new(&src, &items).expect("inside");
    kernel.run(items, out).expect("carried out");
    assert_eq!(outcomes.len(), batch.len());
    let mut rest = &dst[..];
    let mut outputs = Vec::new();
    for (outcome, len) in outcomes.into_iter().zip(lens) {
        let (slot, behind) = rest.split_at(len);
        rest = behind;
        if outcome.is_err() {
            assert!(
                slot.iter().all(|byte| *byte == 0),
                "something of a refused item"
            );
        }
        outputs.push(outcome.map(|len| slot[..len as usize].to_vec()));
    }
    outputs
}

/// Outputs written over their items, which begin with `offset` bytes that stay.
fn in_place(
    kernel: &mut dyn Direct,
    batch: &[Asked],
    offset: usize,
) -> Vec<Result<Vec<u8>, JobError>> {
    let (mut bytes, mut items, mut slots) = (Vec::new(), Vec::new(), Vec::new());
    let span = |start: usize, len: usize| Span {
        buf: 0,
        start: start as u32,
        len: len as u32,
    };
    for Asked {
        item, slot_bytes, ..
    } in batch
    {
        let start = bytes.len();
        items.push(span(start, item.len()));
        slots.push(span(start + offset, *slot_bytes));
        bytes.extend(item);
        bytes.resize(start + item.len().max(offset + slot_bytes), 0);
    }
    let mut bufs = [Buf::zeroed(bytes.len()).expect("memory")];
    bufs[0].copy_from_slice(&bytes);
    let mut outcomes = Vec::with_capacity(batch.len());
    let lie = [Items::Spans(items.clone()), Items::Spans(slots)];
    let work = InPlace::of(&mut bufs, [&lie[0], &lie[1]], offset, &mut outcomes);
    let ran = kernel.run_in_place(work.expect("they lie apart"));
    assert_eq!(ran, Ok(()));
    assert_eq!(outcomes.len(), batch.len());
    let mut outputs = Vec::new();
    for ((outcome, Asked { item, .. }), span) in outcomes.into_iter().zip(batch).zip(items) {
        let behind = &bufs[0][span.start as usize..];
        let head = &item[..item.len().min(offset)];
        assert_eq!(
            &behind[..head.len()],
            head,
            "what stands in front of a text"
        );
        outputs.push(outcome.map(|len| behind[offset..][..len as usize].to_vec()));
    }
    outputs
}

fn bytes(random: &mut SplitMix64, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.next_u64() as u8).collect()
}

fn session_of(item: &[u8]) -> usize {
    let number = item.first_chunk::<4>();
    number.map_or(usize::MAX, |number| u32::from_le_bytes(*number) as usize)
}
