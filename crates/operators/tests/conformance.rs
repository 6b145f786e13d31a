//! Every backend of this crate passes core's suite, with the portable path as the oracle.

use std::num::NonZeroU32;

use dpb_core::{Backend, Batch, DeflateFormat, JobError, OpSpec, conformance};
use dpb_operators::cpu::{self, Cpu};
use dpb_operators::registry;

const PLAIN_BYTES_MAX: usize = 1 << 14;

fn oracle(spec: &OpSpec, item: &[u8]) -> Result<Vec<u8>, JobError> {
    let entry = registry::of(spec).expect("registered");
    entry.oracle(spec, item, PLAIN_BYTES_MAX)
}

fn assert_conforms(backend: &Cpu, spec: &OpSpec) {
    let specs = std::slice::from_ref(spec);
    let coverage =
        conformance::check(backend, specs, &oracle).unwrap_or_else(|failure| panic!("{failure}"));
    if backend.limits(spec).is_ok() {
        assert!(coverage.items > 0, "{}: nothing compared", backend.name());
    }
}

/// Defaults only: `paths.rs` has every parameter, without the seam.
#[test]
fn every_operator_on_every_backend() {
    std::thread::scope(|scope| {
        // `cpu/best` is one of the others.
        let backends = cpu::backends().into_iter();
        for backend in backends.filter(|cpu| cpu.name() != "cpu/best") {
            scope.spawn(move || {
                for entry in registry::OPERATORS {
                    assert_conforms(&backend, &entry.default);
                }
            });
        }
    });
}

#[test]
fn pool_of_three() {
    let pool = Cpu::pool(NonZeroU32::new(3).expect("not zero"));
    assert_conforms(&pool, &OpSpec::Crc32c);
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
fn the_registry_agrees_with_itself() {
    for entry in registry::OPERATORS {
        assert_eq!(entry.spec(""), Ok(entry.default.clone()), "{}", entry.name);
        assert_eq!(entry.default.name(), entry.name);
        assert_eq!(
            entry.paths.last(),
            Some(&cpu::Path::Portable),
            "{}",
            entry.name
        );
        for (path, library) in entry.libraries {
            assert!(entry.paths.contains(path), "{}: {path}", entry.name);
            let is_version = library.version.starts_with(|c: char| c.is_ascii_digit());
            assert!(is_version, "{}: {library}", entry.name);
        }
    }
}

/// What a record says of an operator is all that it takes to get the same operator.
#[test]
fn parameters_make_the_spec_again() {
    for entry in registry::OPERATORS {
        for spec in entry.specs() {
            let given = spec.parameters();
            let names: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
            let known: Vec<&str> = entry.parameters.iter().map(|known| known.name).collect();
            assert_eq!(names, known, "{}", entry.name);
            let written: Vec<String> = given
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            assert_eq!(entry.spec(&written.join(",")), Ok(spec.clone()));
        }
    }
}

/// What is measured on a file is what the file's items decode from, for every decoder there is.
#[test]
fn decoders_are_fed_by_their_encoders() {
    let plain = dpb_operators::input::text(1, 700, 3);
    let mut decoders = 0;
    for entry in registry::OPERATORS {
        for spec in entry.specs().iter().filter(|spec| spec.fed_by().is_some()) {
            let fed = entry.fed(spec, plain.clone()).expect("encodes");
            assert_eq!(fed.slot_bytes, Some(700));
            let batch = Batch::new(&fed.bytes, &fed.items).expect("items lie inside");
            for i in 0..3 {
                let decoded = entry.oracle(spec, batch.item(i), 700);
                assert_eq!(
                    decoded.as_deref(),
                    Ok(&plain.bytes[i * 700..][..700]),
                    "{spec:?}"
                );
            }
            decoders += 1;
        }
    }
    assert_eq!(decoders, 3, "inflate in three formats");
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
