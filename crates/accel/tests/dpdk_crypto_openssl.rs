//! `dpdk/crypto_openssl`, OpenSSL, passes the suite.

mod dpdk;

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
}
