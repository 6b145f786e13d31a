//! DOCA's backends on stand-ins for its libraries, three releases of them, each case in a process of its own.

mod doca_support;

use doca_support::{FLAVOURS, Flavour, passes};
use dpb_accel::Family;
use dpb_accel::doca::Doca;
use dpb_core::{OpSpec, conformance};
use dpb_operators::registry;

/// Operators with the parameters that engines take.
const OPERATORS: [(&str, &str); 11] = [
    ("copy", ""),
    ("deflate", "level=1"),
    ("inflate", ""),
    ("unlz4", ""),
    ("sha1", ""),
    ("sha256", ""),
    ("sha512", ""),
    ("aes-gcm", "bits=128"),
    ("aes-gcm", "bits=256"),
    ("aes-gcm-decrypt", "bits=128"),
    ("aes-gcm-decrypt", "bits=256"),
];

fn spec(name: &str, parameters: &str) -> OpSpec {
    registry::find(name).and_then(|entry| entry.spec(parameters).ok()).expect("an operator of the registry")
}

/// Runs `test` on the libraries of each flavour, or says why not.
fn on_each(test: impl Fn(Flavour, &std::path::Path)) {
    for flavour in FLAVOURS {
        match flavour.libraries() {
            Ok(libraries) => test(flavour, &libraries),
            Err(why) => println!("SKIPPED: stand-in {}: {why}", flavour.name),
        }
    }
}

#[test]
fn conforms() {
    on_each(|flavour, libraries| {
        let said = passes(libraries, "conforms", "");
        println!("{}: {said}", flavour.name);
    });
}

/// Not a test by itself: what a test's processes run.
#[test]
fn child() {
    match std::env::var("DPB_DOCA_CASE").as_deref() {
        Err(_) => {}
        Ok("conforms") => case_conforms(),
        Ok(other) => panic!("no case `{other}`"),
    }
}

fn case_conforms() {
    let backend = Doca.open("").unwrap_or_else(|why| panic!("{why}"));
    for (name, parameters) in OPERATORS {
        let spec = spec(name, parameters);
        let workload = registry::find(name).expect("registered").workload(&spec).expect("its own");
        match conformance::check(&*backend, &[&*workload]) {
            Err(failure) => panic!("{failure}"),
            Ok(coverage) if backend.limits(&spec).is_ok() => {
                assert!(coverage.items > 0);
                println!("{name} {parameters}: {} jobs, {} items", coverage.jobs, coverage.items);
            }
            Ok(coverage) => println!("{}", coverage.skipped.join("; ")),
        }
    }
}
