//! What the family says of this machine, with DPDK and without.

use std::process::Command;

use dpb_accel::dpdk::{Dpdk, status_text};
use dpb_core::Family;
use dpb_core::family::State;

/// Files that the loader finds instead of the shim: none, or a library that is no shim.
const WRONG: [(&str, &str); 2] = [
    ("/no/such/shim.so", "/no/such/shim.so"),
    ("libc.so.6", "libc.so.6 lacks dpb_dpdk_shim"),
];

#[test]
fn without_a_shim_everything_says_what_is_missing() {
    let now = std::env::var("DPB_DPDK_SHIM").unwrap_or_default();
    let Some((_, said)) = WRONG.iter().find(|(path, _)| *path == now) else {
        // Again in processes of their own, as what was loaded stays.
        for (path, _) in WRONG {
            let mut test = Command::new(std::env::current_exe().expect("this program"));
            test.arg("without_a_shim").env("DPB_DPDK_SHIM", path);
            let output = test.output().expect("starts");
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stdout)
            );
        }
        return;
    };
    let findings = Dpdk.findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(
        (&*findings[0].what, findings[0].state),
        ("library", State::Missing)
    );
    assert!(findings[0].detail.contains(said), "{}", findings[0].detail);
    assert!(findings[0].remedy.contains("libdpdk-dev"));
    let listed = Dpdk.backends();
    assert!(listed.len() >= 5 && listed.iter().all(|listed| !listed.is_here));
    for listed in listed {
        let why = Dpdk.open(&listed.instance).err().expect("not here");
        assert_eq!(why.to_string(), listed.details);
    }
    assert!(Dpdk.port("net_null0").is_err());
    assert_eq!(status_text("crypto_openssl", 1), None);
}

#[test]
fn what_is_listed_opens_and_what_is_not_is_named() {
    if std::env::var_os("DPB_DPDK_SHIM").is_some() {
        return;
    }
    for finding in Dpdk.findings() {
        println!(
            "{:?} {}: {} {}",
            finding.state, finding.what, finding.detail, finding.remedy
        );
    }
    let listed = Dpdk.backends();
    if listed.iter().all(|listed| !listed.is_here) {
        println!("skipped: backends of DPDK: {}", listed[0].details);
        return;
    }
    // What was built with this program is part of it, wherever the program is.
    let library = &Dpdk.findings()[0];
    assert!(
        library.detail.ends_with("the shim in this program"),
        "{}",
        library.detail
    );
    for listed in listed {
        let opened = Dpdk.open(&listed.instance);
        assert_eq!(opened.is_ok(), listed.is_here, "{}", listed.instance);
        if let Ok(backend) = opened {
            assert_eq!(backend.name(), format!("dpdk/{}", listed.instance));
            let is_device = !matches!(&*listed.instance, "libraries" | "lpm");
            let success = is_device.then(|| "success".to_owned());
            assert_eq!(status_text(&listed.instance, 0), success);
        }
    }
    let why = Dpdk.open("crypto_abacus").err().expect("no such device");
    assert!(why.to_string().contains("crypto_aesni_mb"), "{why}");
}
