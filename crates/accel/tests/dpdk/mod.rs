//! What the tests on DPDK's devices share. Each device is in a test file of its own, hence in a process of its own: EAL
//! is initialised once in a process.
#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod sessions;

use dpb_accel::dpdk::Dpdk;
use dpb_core::{Backend, Family, conformance};
use dpb_operators::registry::{self, Case};

/// The device's backend, unless this machine lacks it: then that is said.
pub(crate) fn open(instance: &str) -> Option<Box<dyn Backend>> {
    match Dpdk.open(instance) {
        Ok(backend) => Some(backend),
        Err(why) => {
            println!("skipped: dpdk/{instance}: {why} (Debian: libdpdk-dev, and build again)");
            None
        }
    }
}

/// Every parameter of each operator passes the suite, and no operator that the device must have is left out.
pub(crate) fn conforms(backend: &dyn Backend, operators: &[&str], left_out: &[&str]) {
    for name in operators {
        let entry = registry::find(name).expect("registered");
        for case in entry.cases() {
            check(backend, &case);
        }
        assert!(backend.limits(&entry.default_spec()).is_ok(), "{name}");
    }
    for name in left_out {
        let entry = registry::find(name).expect("registered");
        let why = backend
            .limits(&entry.default_spec())
            .expect_err("not of this device");
        println!("{}: {name}: {why}", backend.name());
        check(backend, &entry.default_case());
    }
}

fn check(backend: &dyn Backend, case: &Case) {
    let spec = &case.spec;
    let entry = registry::of(spec).expect("registered");
    let workload = entry.workload(case).expect("its own spec");
    let coverage = conformance::check(backend, &[&*workload]);
    let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
    let is_compared = coverage.items > 0;
    assert_eq!(is_compared, backend.limits(spec).is_ok(), "{spec:?}");
}
