//! `dpdk/crypto_aesni_gcm`, Intel's multi-buffer library for AES-GCM alone, passes the suite.

mod dpdk;

#[test]
fn conforms() {
    let Some(backend) = dpdk::open("crypto_aesni_gcm") else {
        return;
    };
    dpdk::conforms(
        &*backend,
        &["aes-gcm", "aes-gcm-decrypt"],
        &["aes-ctr", "sha256"],
    );
}
