//! Every backend of this crate passes core's suite, judged by the portable path.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dpb_core::conformance::{Counting, Remembered, Suite};
use dpb_core::cpu_level::Level;
use dpb_core::spec::Domain;
use dpb_core::{Backend, DeflateFormat, JobError, OpSpec, ParameterValue, Right, Workload, spec};
use dpb_operators::cpu::{self, Cpu, FAMILIES};
use dpb_operators::input;
use dpb_operators::registry::{self, Case, Entry};
use rayon::prelude::*;

/// Of each thread, so that tests beside each other do not count each other's.
#[global_allocator]
static COUNTING: Counting = Counting;

/// Operators whose pool runs all of the suite, as each path does: one of a fixed shape, one in place, one whose outputs grow, one with a
/// table.
const WHOLE_IN_POOLS: [&str; 4] = ["crc32c", "aes-gcm", "inflate", "lpm4"];

fn assert_conforms(backends: &[Cpu], entry: &Entry, case: &Case) {
    let workload = entry.workload(case).expect("its own spec");
    let workload = Remembered::new(&*workload);
    assert_each(backends, |backend| {
        assert_one_conforms(backend, entry, case, &workload);
    });
}

/// Checks all beside each other. Failures are told on the thread of the test: what a thread of rayon's prints goes to whichever test
/// started it.
fn assert_each<T: Sync>(all: &[T], check: impl Fn(&T) + Sync) {
    let failure = |one| {
        let failed = catch_unwind(AssertUnwindSafe(|| check(one))).err()?;
        let text = failed.downcast::<String>();
        Some(text.map_or_else(|_| "a panic without words".to_owned(), |text| *text))
    };
    let failures: Vec<String> = all.par_iter().filter_map(failure).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs the whole suite on each path. What chooses among these where a level is hidden, and what spreads them over threads, computes as they
/// do, so that the brief suite tells whether it chooses and spreads.
fn assert_one_conforms(backend: &Cpu, entry: &Entry, case: &Case, workload: &dyn Workload) {
    let is_brief = match backend.name() {
        "cpu/best" => true,
        name => name.starts_with("pool/") && !WHOLE_IN_POOLS.contains(&entry.name),
    };
    let suite = Suite::default().counting(Counting::here);
    let suite = if is_brief { suite.brief() } else { suite };
    let coverage = suite.check(backend, &[workload]);
    let is_inline = backend
        .limits(&case.spec)
        .is_ok_and(|limits| limits.synchronous);
    let path = backend.path(entry, &case.spec).ok().filter(|_| is_inline);
    let may_allocate = path.is_some_and(|path| entry.allocates.contains(&path));
    let coverage = match coverage {
        // That check is the last one.
        Err(failure) if may_allocate && failure.case.starts_with("allocations") => return,
        Err(failure) => panic!("{failure}"),
        Ok(_) if may_allocate => panic!("{}: {} allocates nothing", entry.name, backend.name()),
        Ok(coverage) => coverage,
    };
    if backend.limits(&case.spec).is_ok() {
        assert!(coverage.items > 0, "{}: nothing compared", backend.name());
    }
}

/// The backends of each path; where a level is hidden `cpu/best` alone, which chooses another path there, since the others are what they are
/// without.
fn backends() -> Vec<Cpu> {
    let mut backends = cpu::backends();
    backends.retain(|cpu| (cpu.name() == "cpu/best") == Level::is_masked());
    backends
}

/// Defaults only: `paths.rs` has every parameter, without the seam.
#[test]
fn every_operator_on_every_backend() {
    let backends = backends();
    // Where a level is hidden, what has no path for an instruction set runs as it does without.
    let has_path = |entry: &Entry| entry.paths.iter().any(|path| !path.is_available());
    assert_each(registry::OPERATORS, |entry| {
        if Level::is_masked() && !has_path(entry) {
            return;
        }
        let case = entry.default_case();
        assert_conforms(&backends, entry, &case);
    });
}

/// At the levels that `cpu/isa-l` has, in a wrapper too.
#[test]
fn deflate_of_low_levels_on_every_backend() {
    let entry = registry::find("deflate").expect("registered");
    for parameters in ["level=1", "level=2,format=zlib", "level=3,format=gzip"] {
        let case = entry.case(parameters).expect("in its domain");
        assert_conforms(&backends(), entry, &case);
    }
}

/// Of the keyed operators with sessions: each mode of AES, all of which work in place, one that opens, one whose items gain from being
/// together and one whose items do not, one of a fixed shape.
#[test]
fn sessions_on_every_backend() {
    let names = [
        "aes-gcm",
        "aes-gcm-decrypt",
        "aes-ctr",
        "aes-cbc",
        "aes-cbc-decrypt",
        "aes-xts",
        "hmac-sha256",
    ];
    assert_each(&names, |name| {
        let entry = registry::find(name).expect("registered");
        let case = entry.case("sessions=5").expect("in its domain");
        assert_conforms(&backends(), entry, &case);
    });
}

#[test]
fn pool_of_three() {
    let pool = Cpu::pool(NonZeroU32::new(3).expect("not zero"));
    let entry = registry::find("crc32c").expect("registered");
    assert_conforms(&[pool], entry, &entry.default_case());
}

#[test]
fn every_backend_is_found_by_its_name_and_says_why_it_cannot() {
    for backend in backends() {
        let found = FAMILIES.open(backend.name()).expect("listed");
        assert_eq!(found.name(), backend.name());
        for entry in registry::OPERATORS {
            let spec = entry.default_spec();
            match backend.limits(&spec) {
                Ok(_) => assert!(backend.prepare(&spec).is_ok()),
                Err(unsupported) => assert!(
                    unsupported.reason.contains("needs") || unsupported.reason.contains("has no"),
                    "{}: {}",
                    backend.name(),
                    unsupported.reason
                ),
            }
        }
    }
    for (short, long) in [("cpu", "cpu/best"), ("cpu-threads", "pool/")] {
        let backend = FAMILIES.open(short).expect("on any machine");
        assert!(backend.name().starts_with(long), "{}", backend.name());
    }
    for wrong in ["cpu/abacus", "pool/0", "pool/99999999", "pool/two"] {
        assert!(FAMILIES.open(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_registry_agrees_with_itself() {
    for entry in registry::OPERATORS {
        let case = entry.default_case();
        let spec = &case.spec;
        assert_eq!(spec.name(), entry.name);
        let of = registry::of(spec).expect("registered");
        assert_eq!(of.name, entry.name);
        let workload = entry.workload(&case).expect("its own spec");
        assert_eq!(workload.spec(), spec);
        assert!(
            workload.name().ends_with("cpu/portable"),
            "{}: its oracle is not the portable path but {}",
            entry.name,
            workload.name()
        );
        assert_eq!(
            entry.paths.last(),
            Some(&cpu::Implementation::Portable),
            "{}",
            entry.name
        );
        for (path, library) in entry.libraries {
            assert!(entry.paths.contains(path), "{}: {path}", entry.name);
            let is_version = (library.version)().starts_with(|c: char| c.is_ascii_digit());
            // The version of a library that is found at run time is known where the library is.
            let is_known = is_version || !path.is_available();
            assert!(is_known, "{}: {library}", entry.name);
        }
    }
}

/// What a record says of an operator is all that it takes to get the same operator, but for the content of files: of that it
/// says what tells it from another, or of a secret only that there is one.
#[test]
fn parameters_make_the_spec_again() {
    for entry in registry::OPERATORS {
        for case in entry.cases() {
            let given = case.parameters();
            let names: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
            let known: Vec<&str> = entry.all_parameters().map(|known| known.name).collect();
            assert_eq!(names, known, "{}", entry.name);
            for (parameter, (_, value)) in entry.all_parameters().zip(&given) {
                let is_file = parameter.values == Domain::File;
                let is_material = matches!(value, ParameterValue::Material(_));
                assert_eq!(is_file, is_material, "{} {}", entry.name, parameter.name);
            }
            let is_written = |value: &ParameterValue| !matches!(value, ParameterValue::Material(_));
            if given.iter().all(|(_, value)| is_written(value)) {
                let pairs = given.iter().map(|(name, value)| format!("{name}={value}"));
                let written = pairs.collect::<Vec<_>>().join(",");
                assert_eq!(entry.case(&written), Ok(case.clone()));
            }
        }
    }
}

/// The values of a spec's parameters make the same spec, keys and tables with it, and nothing is left to a default.
#[test]
fn values_of_parameters_make_the_spec_again() {
    for entry in registry::OPERATORS {
        for case in entry.cases() {
            let values = case.spec.parts();
            assert_eq!(entry.spec_from(&values), Ok(case.spec.clone()));
            for missing in 0..values.len() {
                let mut fewer = values.clone();
                let (name, value) = fewer.remove(missing);
                let why = entry.spec_from(&fewer).expect_err(name).to_string();
                assert!(why.contains(name), "{why}");
                fewer.extend([(name, value.clone()), (name, value.clone())]);
                let why = entry.spec_from(&fewer).expect_err(name).to_string();
                assert!(why.contains("twice"), "{why}");
                // A path is never followed.
                if let ParameterValue::Material(_) = value {
                    fewer.truncate(values.len() - 1);
                    fewer.push((name, "/dev/zero".into()));
                    let why = entry.spec_from(&fewer).expect_err(name).to_string();
                    assert!(why.contains("its content"), "{why}");
                }
            }
        }
    }
    let crc = registry::find("crc32c").expect("registered");
    assert!(crc.spec_from(&[("level", 1.into())]).is_err());
    let deflate = registry::find("deflate").expect("registered");
    let smuggled = [("level", "6,format=zlib".into()), ("format", "raw".into())];
    assert!(deflate.spec_from(&smuggled).is_err());
}

/// What is measured on a file is what the file's items decode from.
#[test]
fn decoders_are_fed_by_their_encoders() {
    let plain = input::text(1, 700, 3);
    let inflate = registry::find("inflate").expect("registered");
    for case in inflate.cases() {
        let spec = &case.spec;
        let workload = inflate.workload(&case).expect("its own spec");
        let fed = plain.fed(&*workload).expect("encodes");
        assert_eq!(fed.slot_bytes, Some(700));
        assert_eq!(fed.what, format!("deflate of {}", plain.what));
        let batch = fed.batch().expect("items lie inside");
        for i in 0..3 {
            let decoded = &plain.bytes[i * 700..][..700];
            // The slot is a bound, nothing that is allocated.
            for slot_bytes in [700, usize::MAX] {
                let right = workload.right(batch.item(i), slot_bytes);
                assert_eq!(right, Right::Only(decoded.to_vec()), "{spec:?}");
            }
            let right = workload.right(batch.item(i), 699);
            assert_eq!(right, Right::Refused(JobError::DstTooShort), "{spec:?}");
        }
    }
}

/// Every operator takes user data of every length, and its own items are not refused.
#[test]
fn every_workload_feeds_its_operator() {
    for entry in registry::OPERATORS {
        for case in entry.cases() {
            let spec = &case.spec;
            let workload = entry.workload(&case).expect("its own spec");
            for len in [0, 1, 2, 3, 4, 7, 64, 1500] {
                let fed = workload.encode_item(&input::text(3, len, 1).bytes);
                let item = fed.unwrap_or_else(|why| panic!("{spec:?}, {len} bytes: {why}"));
                let right = workload.right(&item, usize::MAX);
                assert!(!matches!(right, Right::Refused(_)), "{spec:?}, {len} bytes");
            }
        }
    }
}

#[test]
fn an_operator_refuses_the_spec_of_any_other() {
    let specs = registry::OPERATORS.iter().map(Entry::default_spec);
    let namesakes = registry::OPERATORS
        .iter()
        .map(|entry| OpSpec::custom(entry.name, []));
    for spec in specs.chain(namesakes) {
        for entry in registry::OPERATORS {
            let is_own = registry::of(&spec).is_ok_and(|of| of.name == entry.name);
            let workload = entry.workload(&spec);
            assert_eq!(workload.is_ok(), is_own, "{} of {spec:?}", entry.name);
            let kernel = entry.direct(&spec, cpu::Implementation::Portable);
            assert_eq!(kernel.is_ok(), is_own, "{} of {spec:?}", entry.name);
        }
    }
}

/// A word that chose what another one chooses would never be run.
#[test]
fn a_spec_has_each_word_that_chose_it() {
    for entry in registry::OPERATORS {
        for parameter in entry.all_parameters() {
            let Domain::Word(words) = parameter.values else {
                continue;
            };
            for word in words {
                let case = entry
                    .case(&format!("{}={word}", parameter.name))
                    .expect("a word");
                let has = |(name, value): &(&str, ParameterValue)| {
                    *name == parameter.name && value.to_string() == **word
                };
                assert!(case.parameters().iter().any(has), "{}: {word}", entry.name);
            }
        }
    }
}

#[test]
fn parameters_are_checked() {
    let deflate = registry::find("deflate").expect("registered");
    assert_eq!(
        deflate.spec("level=9, format=gzip"),
        Ok(OpSpec::from(spec::Deflate {
            level: 9,
            format: DeflateFormat::Gzip
        }))
    );
    assert_eq!(deflate.spec(""), Ok(deflate.default_spec()));
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
    assert_eq!(
        refused.reason,
        "there is no CPU kernel for this crc32c: its spec is of another type"
    );
}
