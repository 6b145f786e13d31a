//! Keyed operators with a key for each session: each item has the key of its session, as RustCrypto computes it, and sessions come,
//! change and go while queues are open. `aes_sessions.rs` has all modes of AES.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce};
use dpb_core::random::SplitMix64;
use dpb_core::sessions::{SESSIONS_MAX, write_change};
use dpb_core::{
    Backend, Batch, BatchOut, Buf, ChangeError, Direction, HmacHash, Items, Job, JobError,
    Material, Memory, OpSpec, Operator, Queue, Span, spec,
};
use dpb_operators::cpu::{self, Cpu};
use dpb_operators::registry;
use hmac::{KeyInit, Mac};

const NONCE: &[u8; 12] = b"of 12 bytes!";

/// Gives the right output for the rest of an item, with this key.
type Right = fn(key: &[u8], rest: &[u8]) -> Vec<u8>;

fn gcm(keys: Vec<Material>) -> OpSpec {
    let of = spec::AesGcm {
        direction: Direction::Encrypt,
        aad_bytes: 0,
        key: Material::secret([0; 16]),
    };
    OpSpec::from(spec::Sessions {
        of: of.into(),
        keys,
    })
}

fn hmac_sha256(keys: Vec<Material>) -> OpSpec {
    let of = spec::Hmac {
        hash: HmacHash::Sha256,
        key: Material::secret([0; 32]),
    };
    OpSpec::from(spec::Sessions {
        of: of.into(),
        keys,
    })
}

fn sealed(key: &[u8], rest: &[u8]) -> Vec<u8> {
    let (nonce, text) = rest.split_at(12);
    let nonce = Nonce::try_from(nonce).expect("12 bytes");
    let mut sealed = text.to_vec();
    let tag = match key.len() {
        16 => Aes128Gcm::new_from_slice(key)
            .expect("16 bytes")
            .encrypt_inout_detached(&nonce, b"", sealed.as_mut_slice().into()),
        _ => Aes256Gcm::new_from_slice(key)
            .expect("32 bytes")
            .encrypt_inout_detached(&nonce, b"", sealed.as_mut_slice().into()),
    };
    sealed.extend(tag.expect("not too long"));
    sealed
}

fn code(key: &[u8], rest: &[u8]) -> Vec<u8> {
    let mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(key).expect("any length");
    mac.chain_update(rest).finalize().into_bytes().to_vec()
}

/// Items of any session and none, in any order, on every path.
#[test]
fn each_item_has_the_key_of_its_session() {
    let mut random = SplitMix64::new(1);
    let mut key =
        |bytes: usize| -> Vec<u8> { (0..bytes).map(|_| random.next_u64() as u8).collect() };
    let keys: Vec<Vec<u8>> = [16, 32, 16, 16, 32].map(&mut key).into();
    let secrets: Vec<_> = keys.iter().map(|key| Material::secret(&key[..])).collect();
    let both: [(OpSpec, Right); 2] = [(gcm(secrets.clone()), sealed), (hmac_sha256(secrets), code)];
    for (spec, right) in both {
        let entry = registry::of(&spec).expect("registered");
        let paths = entry.paths.iter().filter(|path| path.is_available());
        for &path in paths {
            let mut kernel = entry.direct(&spec, path).expect("available");
            for count in [0, 1, 7, 64] {
                let items: Vec<_> = (0..count).map(|_| item(&mut random, keys.len())).collect();
                let bytes = items.concat();
                let batch = Items::one_behind_another(items.iter().map(|item| item.len()));
                let slot_len = kernel.dst_len(4 + 12 + 300);
                let mut dst = vec![0; slot_len * count];
                let slots = Items::fixed(slot_len as u32, count as u32);
                let mut outcomes = Vec::with_capacity(count);
                let batch = Batch::new(&bytes, &batch).expect("inside");
                let out = BatchOut::new(&mut dst, &slots, &mut outcomes).expect("inside");
                kernel.run(batch, out).expect("carried out");
                assert_eq!(outcomes.len(), count);
                for (i, (item, outcome)) in items.iter().zip(outcomes).enumerate() {
                    let output = outcome.map(|len| &dst[i * slot_len..][..len as usize]);
                    match keys.get(session_of(item)) {
                        Some(key) => {
                            let right = right(key, &item[4..]);
                            assert_eq!(output, Ok(&right[..]), "{spec} on {path}");
                        }
                        None => assert_eq!(output, Err(JobError::Malformed), "{spec} on {path}"),
                    }
                }
            }
        }
    }
}

/// A slot that is too short refuses its item, whatever the shape of the operator without sessions.
#[test]
fn a_short_slot_refuses_its_item_alone() {
    let spec = hmac_sha256(vec![
        Material::secret(*b"one"),
        Material::secret(*b"another"),
    ]);
    let entry = registry::of(&spec).expect("registered");
    for &path in entry.paths.iter().filter(|path| path.is_available()) {
        let mut kernel = entry.direct(&spec, path).expect("available");
        let bytes = [1u32.to_le_bytes(), 0u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
        let span = |start, len| Span { buf: 0, start, len };
        let slots = Items::Spans(vec![span(0, 32), span(32, 31), span(63, 40)]);
        let (mut dst, mut outcomes) = (vec![0; 103], Vec::with_capacity(3));
        let items = Items::fixed(4, 3);
        let batch = Batch::new(&bytes, &items).expect("inside");
        let out = BatchOut::new(&mut dst, &slots, &mut outcomes).expect("inside");
        kernel.run(batch, out).expect("carried out");
        assert_eq!(outcomes, [Ok(32), Err(JobError::DstTooShort), Ok(32)]);
        let right = code(b"another", b"");
        assert_eq!([&dst[..32], &dst[63..95]], [&right[..]; 2], "{path}");
        assert_eq!(dst[32..63], [0; 31], "{path}");
    }
}

#[test]
fn sessions_come_change_and_go() {
    for backend in [
        Cpu::best(),
        Cpu::pool(NonZeroU32::new(2).expect("not zero")),
    ] {
        let operator = backend.prepare(&gcm(Vec::new())).expect("prepared");
        let control = operator.control().expect("it has a table");
        let mut queue = Arc::clone(&operator).open(NonZeroU32::MIN).expect("opens");
        let mut ask = |number: u32| sealed_by(&*operator, &mut *queue, number);
        let (one, other) = ([7; 16], [9; 32]);
        let right = |key: &[u8]| Ok(sealed(key, &[NONCE, &b"text"[..]].concat()));
        let change = |changes: &[(u32, &[u8])]| {
            let mut bytes = Vec::new();
            for (number, key) in changes {
                write_change(&mut bytes, *number, key);
            }
            control.change(&bytes)
        };

        assert_eq!(ask(3), Err(JobError::Malformed));
        assert_eq!(change(&[(3, &one), (70_000, &other)]), Ok(()));
        assert_eq!(ask(3), Err(JobError::Malformed), "not committed");
        assert_eq!(control.commit(), Ok(1));
        assert_eq!([ask(3), ask(70_000)], [right(&one), right(&other)]);

        // What is wrong is refused as a whole.
        assert_eq!(
            change(&[(3, &other), (4, &[1; 15])]),
            Err(ChangeError::Malformed { at: 6 + 32 })
        );
        assert_eq!(
            control.change(&[3, 0, 0, 0, 16, 0, 1]),
            Err(ChangeError::Malformed { at: 0 })
        );
        assert_eq!(
            change(&[(3, &other), (SESSIONS_MAX, &one)]),
            Err(ChangeError::Full)
        );
        assert_eq!(control.commit(), Ok(1));
        assert_eq!(ask(3), right(&one));

        // A new key, and the end of a session; to end one that there is not is no change.
        assert_eq!(change(&[(3, &other), (70_000, &[]), (90_000, &[])]), Ok(()));
        assert_eq!(control.commit(), Ok(2));
        assert_eq!(
            [ask(3), ask(70_000)],
            [right(&other), Err(JobError::Malformed)]
        );
    }
}

/// In place the number stays where it is, as nonce and additional data do.
#[test]
fn in_place_the_number_stays() {
    let keys = [[1; 16], [2; 16]];
    let spec = gcm(keys.map(Material::secret).into());
    for backend in cpu::backends() {
        let Ok(operator) = backend.prepare(&spec) else {
            continue;
        };
        assert_eq!(operator.in_place(), Ok(16));
        let mut queue = Arc::clone(&operator).open(NonZeroU32::MIN).expect("opens");
        let mut dst = Buf::zeroed(3 * 64).expect("memory");
        let numbers = [1u32, 0, 5];
        for (item, number) in dst.chunks_mut(64).zip(numbers) {
            item[..4].copy_from_slice(&number.to_le_bytes());
            item[4..16].copy_from_slice(NONCE);
            item[16..26].copy_from_slice(b"ten bytes!");
        }
        let span = |start, len| Span { buf: 0, start, len };
        let items = Items::Spans((0..3).map(|i| span(64 * i, 26)).collect());
        let slots = Items::Spans((0..3).map(|i| span(64 * i + 16, 26)).collect());
        let job = Job::with_slots(0, Memory::Output, items, dst, slots, Vec::with_capacity(3));
        let job = carried_out(&mut *queue, job);
        assert_eq!(job.outcomes, [Ok(26), Ok(26), Err(JobError::Malformed)]);
        for (i, number) in numbers.into_iter().enumerate().take(2) {
            let rest = [NONCE, &b"ten bytes!"[..]].concat();
            let right = [
                &number.to_le_bytes(),
                &NONCE[..],
                &sealed(&keys[number as usize], &rest),
            ];
            assert_eq!(
                job.dst[0][64 * i..][..42],
                right.concat()[..],
                "{}",
                backend.name()
            );
        }
    }
}

/// Keys are of no session but their own, and show nowhere.
#[test]
fn arguments_make_sessions() {
    let entry = registry::find("aes-ctr").expect("registered");
    let path = std::env::temp_dir().join(format!("dpb-sessions-{}", std::process::id()));
    std::fs::write(&path, [[b'K'; 16], [b'L'; 16]].concat()).expect("writes");
    let given = |sessions: &str| entry.spec(&format!("{sessions}key={}", path.display()));
    let (two, three) = (given("sessions=2,"), given("sessions=3,"));
    std::fs::remove_file(&path).expect("removes");
    let two = two.expect("two keys");
    let spec::Sessions { keys, .. } = registry::own(&two);
    assert_eq!(keys, &[[b'K'; 16], [b'L'; 16]].map(Material::secret));
    assert!(!format!("{two:?}").contains("75"), "{two:?}");
    let said = three.expect_err("32 bytes are not three keys").to_string();
    assert_eq!(
        said,
        "key: 32 bytes in the file, 48 are needed with bits=128,sessions=3"
    );
}

fn session_of(item: &[u8]) -> usize {
    let number = item.first_chunk::<4>();
    number.map_or(usize::MAX, |number| u32::from_le_bytes(*number) as usize)
}

/// One in eight is of no session, or has no number.
fn item(random: &mut SplitMix64, sessions: usize) -> Vec<u8> {
    let len = random.below(300);
    let mut item = match random.below(16) {
        0 => return vec![0; random.below(4)],
        1 => u32::MAX - random.below(3) as u32,
        _ => random.below(sessions) as u32,
    }
    .to_le_bytes()
    .to_vec();
    item.extend(NONCE);
    item.extend((0..len).map(|_| random.next_u64() as u8));
    item
}

/// The output for a text of session `number`.
fn sealed_by(
    operator: &dyn Operator,
    queue: &mut dyn Queue,
    number: u32,
) -> Result<Vec<u8>, JobError> {
    let item = [&number.to_le_bytes(), &NONCE[..], b"text"].concat();
    let mut src = Buf::zeroed(item.len()).expect("memory");
    src.copy_from_slice(&item);
    let dst = Buf::zeroed(operator.dst_len(item.len())).expect("memory");
    let job = Job::new(0, src.freeze(), Items::One, dst, operator.shape());
    let job = carried_out(queue, job);
    job.output(operator.shape(), 0).map(<[u8]>::to_vec)
}

fn carried_out(queue: &mut dyn Queue, job: Job) -> Job {
    let (mut ready, mut done) = (VecDeque::from([job]), Vec::new());
    assert_eq!(queue.submit(&mut ready), 1);
    while queue.poll(&mut done) == 0 {
        std::thread::yield_now();
    }
    let done = done.pop().expect("came home");
    done.result.expect("carried out");
    done.job
}
