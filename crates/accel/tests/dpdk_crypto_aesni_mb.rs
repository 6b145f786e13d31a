//! `dpdk/crypto_aesni_mb`, Intel's multi-buffer library, passes the suite.

mod dpdk;

#[test]
fn conforms() {
    let Some(backend) = dpdk::open("crypto_aesni_mb") else {
        return;
    };
    let operators = [
        "aes-gcm",
        "aes-gcm-decrypt",
        "aes-ctr",
        "aes-cbc",
        "aes-cbc-decrypt",
        "sha1",
        "sha256",
        "sha512",
        "hmac-sha1",
        "hmac-sha256",
        "hmac-sha512",
    ];
    dpdk::conforms(
        &*backend,
        &operators,
        &["md5", "hmac-md5", "aes-xts", "deflate", "crc32c"],
    );
    dpdk::sessions::follow_the_cpu(|| dpdk::open("crypto_aesni_mb").expect("opened before"));
}
