//! `dpdk/crypto_openssl`, OpenSSL, passes the suite.

#[path = "../../operators/tests/support/chained.rs"]
mod chained;
mod dpdk;

use chained::Chained;
use dpb_accel::dpdk::Dpdk;
use dpb_core::{Backend, Families, Workload, conformance};

#[test]
fn conforms() {
    let Some(backend) = dpdk::open("crypto_openssl") else {
        return;
    };
    let operators = [
        "aes-gcm",
        "aes-gcm-decrypt",
        "aes-ctr",
        "aes-cbc",
        "aes-cbc-decrypt",
        "md5",
        "sha1",
        "sha256",
        "sha512",
        "hmac-md5",
        "hmac-sha1",
        "hmac-sha256",
        "hmac-sha512",
    ];
    dpdk::conforms(&*backend, &operators, &["aes-xts", "deflate", "crc32c"]);
    dpdk::sessions::follow_the_cpu(|| dpdk::open("crypto_openssl").expect("opened before"));
    runs_chains();
}

/// The device knows no chain: whoever opens it by its name has its operators one behind another. In the same test, as EAL is this
/// process's.
fn runs_chains() {
    let families = Families::new(&[&Dpdk]);
    let backend = families.open("dpdk/crypto_openssl").expect("as before");
    for names in [
        &["aes-ctr", "sha256"][..],
        &["aes-gcm-decrypt", "aes-ctr", "sha1"],
    ] {
        let workload = Chained::of(names);
        let coverage = conformance::check(&*backend, &[&workload]);
        let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(coverage.items > 100, "{names:?}: {coverage:?}");
    }
    let spec = Chained::of(&["aes-ctr", "crc32c"]);
    let refused = backend.limits(spec.spec()).expect_err("no such stage");
    assert!(
        refused.reason.contains("crc32c is none of these"),
        "{refused}"
    );
}
