//! `dpdk/compress_isal` passes the suite.

mod dpdk;

#[test]
fn conforms() {
    let Some(backend) = dpdk::open("compress_isal") else {
        return;
    };
    dpdk::conforms(&*backend, &["deflate", "inflate"], &["aes-gcm", "lz4"]);
}
