//! `dpdk/compress_zlib` passes the suite.

mod dpdk;

#[test]
fn conforms() {
    let Some(backend) = dpdk::open("compress_zlib") else {
        return;
    };
    dpdk::conforms(&*backend, &["deflate", "inflate"], &["aes-gcm", "lz4"]);
}
