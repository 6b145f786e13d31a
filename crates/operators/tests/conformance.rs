//! Every backend of this crate passes core's suite, with the portable path as the oracle.

use std::num::NonZeroU32;

use dpb_core::{Backend, DeflateFormat, JobError, OpSpec, conformance};
use dpb_operators::cpu::{self, Cpu};
use dpb_operators::registry;

const PLAIN_BYTES_MAX: usize = 1 << 14;

fn oracle(spec: &OpSpec, item: &[u8]) -> Result<Vec<u8>, JobError> {
    let entry = registry::of(spec).expect("registered");
    entry.oracle(spec, item, PLAIN_BYTES_MAX)
}

fn assert_conforms(backend: &Cpu, specs: &[OpSpec]) {
    let coverage =
        conformance::check(backend, specs, &oracle).unwrap_or_else(|failure| panic!("{failure}"));
    for spec in specs {
        if backend.limits(spec).is_ok() {
            assert!(coverage.items > 0, "{}: nothing compared", backend.name());
        }
    }
}

#[test]
fn checksums_and_digests() {
    for backend in cpu::backends() {
        assert_conforms(&backend, &[OpSpec::Crc32c]);
        assert_conforms(&backend, &[OpSpec::Sha256]);
    }
}

#[test]
fn deflate() {
    // `cpu/best` is one of the others.
    for backend in cpu::backends()
        .into_iter()
        .filter(|cpu| cpu.name() != "cpu/best")
    {
        let level = 1;
        let format = DeflateFormat::Raw;
        assert_conforms(&backend, &[OpSpec::Deflate { level, format }]);
        assert_conforms(&backend, &[OpSpec::Inflate { format }]);
    }
}

#[test]
fn wrapped_deflate() {
    for format in [DeflateFormat::Zlib, DeflateFormat::Gzip] {
        assert_conforms(&Cpu::best(), &[OpSpec::Deflate { level: 6, format }]);
        assert_conforms(&Cpu::best(), &[OpSpec::Inflate { format }]);
    }
}

#[test]
fn pool_of_three() {
    let pool = Cpu::pool(NonZeroU32::new(3).expect("not zero"));
    assert_conforms(&pool, &[OpSpec::Crc32c]);
}

#[test]
fn every_backend_is_found_by_its_name_and_says_why_it_cannot() {
    for backend in cpu::backends() {
        let found = cpu::by_name(backend.name()).expect("listed");
        assert_eq!(found.name(), backend.name());
        for entry in registry::OPERATORS {
            match backend.limits(&entry.default) {
                Ok(_) => assert!(backend.prepare(&entry.default).is_ok()),
                Err(unsupported) => assert!(
                    unsupported.reason.contains("needs") || unsupported.reason.contains("has no"),
                    "{}: {}",
                    backend.name(),
                    unsupported.reason
                ),
            }
        }
    }
    assert!(cpu::by_name("cpu/abacus").is_err());
    assert!(cpu::by_name("pool/0").is_err());
}

#[test]
fn parameters_are_checked() {
    let deflate = registry::find("deflate").expect("registered");
    assert_eq!(
        deflate.spec("level=9, format=gzip"),
        Ok(OpSpec::Deflate {
            level: 9,
            format: DeflateFormat::Gzip
        })
    );
    assert_eq!(deflate.spec(""), Ok(deflate.default.clone()));
    for wrong in [
        "level=10",
        "level=0",
        "level=x",
        "format=lz4",
        "speed=3",
        "level",
        "level=1,level=2",
    ] {
        assert!(deflate.spec(wrong).is_err(), "{wrong}");
    }
    assert!(
        registry::find("crc32c")
            .expect("registered")
            .spec("level=1")
            .is_err()
    );
}

#[test]
fn a_custom_operator_is_not_taken_for_one_of_the_same_name() {
    let spec = OpSpec::custom("crc32c", []);
    assert!(registry::of(&spec).is_err());
    let refused = Cpu::best().limits(&spec).expect_err("no kernel of ours");
    assert_eq!(refused.reason, "there is no CPU kernel for crc32c");
}
