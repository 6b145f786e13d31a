//! Hash functions and HMAC: published vectors, and another implementation at every length near a border, on every path
//! that this CPU has, alone and side by side.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use dpb_core::cpu_level::Level;
use dpb_core::{
    Batch, Items, SetupError, Stride,
    spec::{self},
};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use dpb_operators::cpu::Cpu;
use dpb_operators::cpu::Implementation;
use dpb_operators::registry;
use dpb_operators::security::hash::{Hash, Key, Keying};
use dpb_operators::security::hmac::Hmac;
use dpb_operators::security::md5::Md5;
use dpb_operators::security::sha1::Sha1;
use dpb_operators::security::sha256::Sha256;
use dpb_operators::security::sha512::Sha512;

/// A message, its key if it has one, and what comes of it.
struct Vector {
    key: Vec<u8>,
    message: Vec<u8>,
    digest: Vec<u8>,
}

#[test]
fn md5_of_rfc_1321() {
    assert_vectors::<Md5>(&[include_str!("data/md5.rsp")], 7);
}

/// NIST CAVP, byte-oriented messages: all short ones, every eighth long one.
#[test]
fn sha1_of_cavp() {
    let files = [
        include_str!("data/sha1_short.rsp"),
        include_str!("data/sha1_long.rsp"),
    ];
    assert_vectors::<Sha1>(&files, 65 + 8);
}

/// NIST CAVP, byte-oriented messages: all short ones, every eighth long one.
#[test]
fn sha256_of_cavp() {
    let files = [
        include_str!("data/sha256_short.rsp"),
        include_str!("data/sha256_long.rsp"),
    ];
    assert_vectors::<Sha256>(&files, 65 + 8);
}

/// NIST CAVP, byte-oriented messages: all short ones, every sixteenth long one.
#[test]
fn sha512_of_cavp() {
    let files = [
        include_str!("data/sha512_short.rsp"),
        include_str!("data/sha512_long.rsp"),
    ];
    assert_vectors::<Sha512>(&files, 129 + 8);
}

/// By what Linux says of the CPU: which path SHA-1 takes below AVX-512 where there are SHA instructions, as `dpb_core::cpu_vendor` has it.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn sha1_below_avx512_goes_by_the_maker() {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").expect("readable");
    let said = |name: &str| {
        cpu.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or("")
    };
    let is_amd = ["AuthenticAMD", "HygonGenuine"].map(|maker| said("vendor_id").ends_with(maker));
    let wanted = match is_amd.contains(&true) {
        true => "sha-ni",
        false => "avx2-sha-ni",
    };
    let has_sha = said("flags").contains(" sha_ni");
    let level = Level::here().name();
    if !has_sha || !level.starts_with("x86-64-v3") {
        println!(
            "skipped: needs a CPU with SHA instructions at level x86-64-v3; DPB_CPU_LEVEL chooses it"
        );
        return;
    }
    let best = Implementation::best(Sha1::PATHS);
    assert_eq!(best.name(), wanted);
    let entry = registry::find("sha1").expect("registered");
    let path = Cpu::best().path(entry, &entry.default_spec());
    assert_eq!(path, Ok(best));
    let said = Cpu::codes_of(entry).expect("has paths");
    assert!(said.starts_with(&format!("{wanted}, ")), "{said}");
}

/// RFC 6234, 8.5, tests 3 and 4: long messages, of blocks and of single letters.
#[test]
fn long_messages_of_rfc_6234() {
    let repeated = "0123456701234567012345670123456701234567012345670123456701234567".repeat(10);
    let million = "a".repeat(1_000_000);
    assert_digests::<Sha1>(
        [&million, &repeated],
        [
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f",
            "dea356a2cddd90c7a7ecedc5ebb563934f460452",
        ],
    );
    assert_digests::<Sha256>(
        [&million, &repeated],
        [
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
            "594847328451bdfa85056225462cc1d867d877fb388df0ce35f25ab5562bfbb5",
        ],
    );
    assert_digests::<Sha512>(
        [&million, &repeated],
        [
            "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973ebde0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b",
            "89d05ba632c699c31231ded4ffc127d5a894dad412c0e024db872d1abd2ba8141a0f85072a9be1e2aa04cf33c765cb510813a39cd5a84c4acaa64d3f3fb7bae9",
        ],
    );
}

#[test]
fn hmac_of_rfc_2202_and_rfc_4231() {
    assert_codes::<Md5>(include_str!("data/hmac_md5.rsp"), 7);
    assert_codes::<Sha1>(include_str!("data/hmac_sha1.rsp"), 7);
    assert_codes::<Sha256>(include_str!("data/hmac_sha256.rsp"), 6);
    assert_codes::<Sha512>(include_str!("data/hmac_sha512.rsp"), 6);
}

/// RustCrypto's implementations give the same at every length up to 300.
#[test]
fn every_length_as_rustcrypto_has_it() {
    assert_lengths::<Md5>(|message| <md5::Md5 as md5::Digest>::digest(message).to_vec());
    assert_lengths::<Sha1>(|message| <sha1::Sha1 as sha1::Digest>::digest(message).to_vec());
    assert_lengths::<Sha256>(|message| <sha2::Sha256 as sha2::Digest>::digest(message).to_vec());
    assert_lengths::<Sha512>(|message| <sha2::Sha512 as sha2::Digest>::digest(message).to_vec());
}

/// RustCrypto's HMAC gives the same for keys of every length around a block.
#[test]
fn every_key_as_rustcrypto_has_it() {
    use hmac::{KeyInit, Mac};
    macro_rules! assert_keys {
        ($($ours:ty, $theirs:ty;)+) => {$({
            for len in 0..=2 * <$ours>::BLOCK_BYTES + 1 {
                let key = bytes(len);
                let theirs = hmac::Hmac::<$theirs>::new_from_slice(&key).expect("any length");
                let theirs = theirs.chain_update(b"message").finalize().into_bytes();
                for path in available::<$ours>() {
                    let code = Hmac::<$ours>::new(path, &key).expect("available").code(b"message");
                    assert_eq!(code, theirs[..], "{}, {path}, key of {len}", <$ours>::NAME);
                }
            }
        })+};
    }
    assert_keys! {
        Md5, md5::Md5;
        Sha1, sha1::Sha1;
        Sha256, sha2::Sha256;
        Sha512, sha2::Sha512;
    }
}

#[test]
fn a_key_is_read_from_its_file_else_made_and_shown_nowhere() {
    let path = std::env::temp_dir().join(format!("dpb-hmac-{}", std::process::id()));
    std::fs::write(&path, b"Jefe").expect("writes");
    let hmac = registry::find("hmac-sha256").expect("registered");
    let spec = hmac.spec(&format!("key={}", path.display()));
    std::fs::remove_file(&path).expect("removes");
    let spec = spec.expect("a key");
    let spec::Hmac { key, .. } = registry::own(&spec);
    assert_eq!((key.bytes(), key.is_secret()), (&b"Jefe"[..], true));
    let (one, other) = (hmac.default_spec(), hmac.default_spec());
    assert_ne!(one, other, "made anew");
    for spec in [spec, one] {
        let said = format!("{spec:?}");
        assert!(said.contains("secret, "), "{said}");
        let sha1 = registry::find("hmac-sha1").expect("registered");
        let refused = sha1.workload(&spec).err();
        assert!(matches!(refused, Some(SetupError::Parameter(_))));
    }
    let code = format!(
        "{:?}",
        Hmac::<Sha256>::new(Implementation::Portable, b"Jefe")
    );
    assert_eq!(code, "Ok(Hmac { hash: Sha256(Portable), .. })");
}

/// Each message alone, and all of them, which are of different lengths, as one batch, forwards and backwards.
fn assert_vectors<H: Hash>(files: &[&str], count: usize) {
    let mut vectors: Vec<Vector> = files.iter().flat_map(|file| read(file)).collect();
    assert_eq!(vectors.len(), count);
    for _ in 0..2 {
        for path in available::<H>() {
            let hash = H::new(path).expect("available");
            let messages: Vec<&[u8]> = vectors.iter().map(|vector| &vector.message[..]).collect();
            let digests = side_by_side(&hash, Keying::Plain(&H::INITIAL), &messages);
            for (vector, digest) in vectors.iter().zip(digests) {
                let len = vector.message.len();
                assert_eq!(digest, vector.digest, "{path}, {len} bytes, side by side");
                let digest = hash.digest(&vector.message);
                assert_eq!(digest, vector.digest, "{path}, {len} bytes");
            }
        }
        vectors.reverse();
    }
}

fn assert_digests<H: Hash>(messages: [&String; 2], digests: [&str; 2]) {
    for path in available::<H>() {
        let hash = H::new(path).expect("available");
        for (message, digest) in messages.into_iter().zip(digests) {
            assert_eq!(hash.digest(message.as_bytes()), hex(digest), "{path}");
        }
    }
}

fn assert_codes<H: Hash>(file: &str, count: usize) {
    let vectors = read(file);
    assert_eq!(vectors.len(), count);
    for path in available::<H>() {
        for vector in &vectors {
            let hmac = Hmac::<H>::new(path, &vector.key).expect("available");
            let code = hmac.code(&vector.message);
            assert_eq!(code, vector.digest, "HMAC over {}, {path}", H::NAME);
        }
    }
}

/// Every length up to 300, alone; as many as there may be lanes; and a batch of all lengths. Digests, and HMAC's codes by a key for each.
fn assert_lengths<H: Hash>(theirs: impl Fn(&[u8]) -> Vec<u8>) {
    let bytes = bytes(300);
    let messages: Vec<&[u8]> = (0..=300).map(|len| &bytes[..len]).collect();
    let right: Vec<_> = messages.iter().map(|message| theirs(message)).collect();
    let keys: Vec<OwnKey<H>> = (0..=300).map(|i| OwnKey::new(i as u8)).collect();
    let codes = keys.iter().zip(&messages);
    let codes: Vec<_> = codes
        .map(|(key, message)| key.code(message, &theirs))
        .collect();
    let codes_by_one = messages
        .iter()
        .map(|message| keys[0].code(message, &theirs));
    let codes_by_one: Vec<_> = codes_by_one.collect();
    let keys: Vec<&Key<H::State>> = keys.iter().map(|key| &key.states).collect();
    for path in available::<H>() {
        let hash = H::new(path).expect("available");
        let digests = |messages| side_by_side(&hash, Keying::Plain(&H::INITIAL), messages);
        assert_eq!(digests(&messages), right, "{path}");
        for (message, right) in messages.iter().zip(&right) {
            let name = H::NAME;
            let len = message.len();
            assert_eq!(hash.digest(message), *right, "{name}, {path}, {len} bytes");
        }
        let said = side_by_side(&hash, Keying::Each(&keys), &messages);
        assert_eq!(said, codes, "{path}, a key for each");
        let said = side_by_side(&hash, Keying::One(keys[0]), &messages);
        assert_eq!(said, codes_by_one, "{path}, one key");
        for count in 1..=70 {
            let first = 301 - count;
            assert_eq!(
                digests(&messages[first..]),
                right[first..],
                "{path}, {count} messages"
            );
            let keying = Keying::Each(&keys[first..]);
            let said = side_by_side(&hash, keying, &messages[first..]);
            assert_eq!(said, codes[first..], "{path}, {count} codes");
        }
    }
    assert_equal_lengths::<H>(theirs);
}

/// Messages of one length, one right behind another, which end all at once; of lengths around the ends of blocks and of padding. Their
/// digests, then HMAC's codes, with one key for all and with a key for each.
fn assert_equal_lengths<H: Hash>(theirs: impl Fn(&[u8]) -> Vec<u8>) {
    let bytes = bytes(70 * 260);
    let keys: Vec<OwnKey<H>> = (0..70).map(OwnKey::new).collect();
    let states: Vec<&Key<H::State>> = keys.iter().map(|key| &key.states).collect();
    for len in [0, 1, 20, 55, 56, 64, 65, 111, 112, 128, 130, 256, 260] {
        let messages = || {
            let chunks = bytes.chunks(len.max(1)).take(70);
            chunks.map(move |chunk| &chunk[..len])
        };
        let right: Vec<u8> = messages().flat_map(&theirs).collect();
        let by_each = keys.iter().zip(messages());
        let by_each = by_each.flat_map(|(key, message)| key.code(message, &theirs));
        let by_each: Vec<u8> = by_each.collect();
        let by_one = messages().flat_map(|message| keys[0].code(message, &theirs));
        let by_one: Vec<u8> = by_one.collect();
        for path in available::<H>() {
            let hash = H::new(path).expect("available");
            for count in 1..=70 {
                let items = Items::fixed(len as u32, count as u32);
                let batch = Batch::new(&bytes[..len * count], &items).expect("inside");
                let mut digests = vec![0; count * H::DIGEST_BYTES];
                hash.each(Keying::Plain(&H::INITIAL), batch, &mut digests);
                let right = &right[..digests.len()];
                assert_eq!(digests, right, "{path}, {count} messages of {len} bytes");
                hash.each(Keying::One(states[0]), batch, &mut digests);
                let right = &by_one[..digests.len()];
                assert_eq!(digests, right, "{path}, {count} of {len} bytes, one key");
                hash.each(Keying::Each(&states[..count]), batch, &mut digests);
                let right = &by_each[..digests.len()];
                assert_eq!(
                    digests, right,
                    "{path}, {count} of {len} bytes, a key for each"
                );
                // The same with other bytes between the messages.
                let messages = messages().take(count);
                let apart: Vec<u8> = messages.flat_map(|one| [&[7; 4], one].concat()).collect();
                let items = Items::Strided(Stride {
                    start: 4,
                    len: len as u32,
                    step: len as u32 + 4,
                    count: count as u32,
                });
                let batch = Batch::new(&apart, &items).expect("inside");
                hash.each(Keying::Each(&states[..count]), batch, &mut digests);
                assert_eq!(digests, right, "{path}, {count} of {len} bytes apart");
            }
        }
    }
}

/// A key of HMAC. Each of its two padded blocks repeats one byte.
struct OwnKey<H: Hash> {
    states: Key<H::State>,
    blocks: [Vec<u8>; 2],
}

impl<H: Hash> OwnKey<H> {
    fn new(byte: u8) -> Self {
        let blocks = [byte, !byte].map(|byte| vec![byte; H::BLOCK_BYTES]);
        let [inner, outer] = blocks.each_ref().map(|block| H::after(H::INITIAL, block));
        let states = Key { inner, outer };
        Self { states, blocks }
    }

    /// The code of a message, by a hash function that is not dpb's.
    fn code(&self, message: &[u8], theirs: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let [inner, outer] = &self.blocks;
        let digest = theirs(&[inner, message].concat());
        theirs(&[&outer[..], &digest].concat())
    }
}

/// The digests of a batch, or its codes.
fn side_by_side<H: Hash>(
    hash: &H,
    keying: Keying<'_, H::State>,
    messages: &[&[u8]],
) -> Vec<Vec<u8>> {
    let mut end = 0;
    let ends = messages.iter().map(|message| {
        end += message.len() as u32;
        end
    });
    let items = Items::Offsets(std::iter::once(0).chain(ends).collect());
    let bytes = messages.concat();
    let batch = Batch::new(&bytes, &items).expect("items lie inside");
    let mut digests = vec![0; messages.len() * H::DIGEST_BYTES];
    hash.each(keying, batch, &mut digests);
    let digests = digests.chunks(H::DIGEST_BYTES);
    digests.map(<[u8]>::to_vec).collect()
}

fn available<H: Hash>() -> impl Iterator<Item = Implementation> {
    H::PATHS.iter().copied().filter(|path| path.is_available())
}

/// The vectors of a file in CAVP's form.
fn read(file: &str) -> Vec<Vector> {
    let (mut len, mut key, mut message) = (0, Vec::new(), Vec::new());
    let mut vectors = Vec::new();
    for line in file.lines() {
        match line.split_once(" = ") {
            Some(("Len", bits)) => len = bits.parse::<usize>().expect("a length") / 8,
            Some(("Key", digits)) => key = hex(digits),
            Some(("Msg", digits)) => {
                message = hex(digits);
                message.truncate(len);
            }
            Some(("MD", digits)) => vectors.push(Vector {
                key: key.clone(),
                message: message.clone(),
                digest: hex(digits),
            }),
            _ => {}
        }
    }
    vectors
}

/// `len` bytes, no two neighbours alike.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 167 + i / 251) as u8).collect()
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect()
}
