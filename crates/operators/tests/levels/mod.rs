//! The tests of a program once more at a lower level, which is read once a process.

use dpb_core::cpu_level::VARIABLE;
use dpb_operators::cpu::Implementation;

/// The level that hides AVX.
const LEVEL: &str = "x86-64-v2";

/// Starts this program's tests again where AVX is hidden, without `this` one, and fails if one of them fails or `inside` was not run.
pub(crate) fn again_without_avx(this: &str, inside: &str) {
    let output = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--skip", this])
        .env(VARIABLE, LEVEL)
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    for name in [inside, "the_level_hides_what_lies_above_it_alone"] {
        assert!(said.contains(&format!("{name} ... ok")), "{name}: {said}");
    }
}

/// The path `aes-ni` is there at every level if the CPU has it, the one above it where the level does not hide it.
#[test]
fn the_level_hides_what_lies_above_it_alone() {
    let level = std::env::var(VARIABLE).unwrap_or_default();
    let one = is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
    let two = one && is_x86_feature_detected!("vaes") && is_x86_feature_detected!("vpclmulqdq");
    assert_eq!(
        [
            Implementation::AesNi.is_available(),
            Implementation::VaesAvx2.is_available()
        ],
        [
            one && level != "x86-64-v1",
            two && !["x86-64-v1", LEVEL, "x86-64-v3"].contains(&&*level)
        ],
        "at {level:?}"
    );
}
