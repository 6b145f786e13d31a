//! What the tests on RDMA devices share.

use dpb_accel::rdma::Rdma;
use dpb_core::Family;
use dpb_core::family::State;

/// The names of all devices, or lines that say why there is none.
pub(crate) fn devices() -> Vec<String> {
    let listed = Rdma.backends().into_iter();
    let here = listed.filter(|listed| listed.is_here);
    let devices: Vec<String> = here.map(|listed| listed.instance).collect();
    if devices.is_empty() {
        let findings = Rdma.findings().into_iter();
        for finding in findings.filter(|finding| finding.state != State::Found) {
            println!(
                "skipped: {}: {}; {}",
                finding.what, finding.detail, finding.remedy
            );
        }
    }
    devices
}
