//! Levels of instruction sets, and how a machine is made to look like one of a lower level.
//!
//! The variable `DPB_CPU_LEVEL` masks what lies above a level, so that one machine tests and times the code that others run:
//! `DPB_CPU_LEVEL=x86-64-v3 dpb op all`. It is read once. Everything of dpb's that asks what the CPU has asks [`has!`](crate::has) here.
//! Libraries that ask the CPU themselves do not know it, also those that are part of dpb (AWS-LC, libdeflate, memchr). glibc has
//! `GLIBC_TUNABLES=glibc.cpu.hwcaps`, OpenSSL and AWS-LC have `OPENSSL_ia32cap`, which `cargo xtask bench --cpu-level` sets too
//! (it also answers the CPU's `cpuid` in its place, where a kernel allows that);
//! DPDK has `--force-max-simd-bitwidth`, which dpb passes on.

use std::sync::OnceLock;

/// The variable that masks.
pub const VARIABLE: &str = "DPB_CPU_LEVEL";

/// A level of instruction sets, the lowest first.
///
/// x86-64's are those of its ABI, with one more between the third and the fourth, for CPUs that have vectors of 256 bits in
/// AES and carry-less products, most of them with GFNI, but no AVX-512 (Alder Lake; Zen 3, without GFNI).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

#[cfg(target_arch = "aarch64")]
const NAMES: &[&str] = &["armv8-a", "armv8-a-crypto", "armv8.2-a", "armv9-a"];
#[cfg(not(target_arch = "aarch64"))]
const NAMES: &[&str] = &[
    "x86-64-v1",
    "x86-64-v2",
    "x86-64-v3",
    "x86-64-v3-vaes",
    "x86-64-v4",
];

impl Level {
    /// The level that a CPU needs for `features`, by the names that `std::arch` has for them.
    pub const fn of(features: &[&str]) -> Self {
        let mut level = 0;
        let mut i = 0;
        while i < features.len() {
            let of_feature = level_of(features[i].as_bytes());
            if of_feature > level {
                level = of_feature;
            }
            i += 1;
        }
        Self(level)
    }

    /// The level called `name`.
    ///
    /// # Errors
    /// There is none; the message lists them.
    pub fn named(name: &str) -> Result<Self, String> {
        let at = NAMES.iter().position(|known| *known == name);
        at.map(|at| Self(at as u8)).ok_or_else(|| {
            let names = NAMES.join(", ");
            format!("{VARIABLE}={name} is no level of this architecture: {names}")
        })
    }

    /// As in the variable.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }

    /// The highest level whose code this process may run: this CPU's, or a lower one that the variable names.
    pub fn here() -> Self {
        cpu().min(mask())
    }

    /// True if the variable hides something that this CPU has.
    pub fn is_masked() -> bool {
        mask() < cpu()
    }

    /// True if code that needs this level may run, as far as the variable says.
    pub fn is_allowed(self) -> bool {
        self <= mask()
    }
}

/// Reads the variable, for a program to refuse it at its start; without the variable all is well.
///
/// # Errors
/// The variable names no level. Until it is mended, nothing above the lowest level runs.
pub fn check() -> Result<(), String> {
    from_variable().map(|_| ())
}

fn from_variable() -> Result<Option<Level>, String> {
    match std::env::var(VARIABLE) {
        Ok(name) => Level::named(&name).map(Some),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{VARIABLE}: {error}")),
    }
}

fn mask() -> Level {
    static MASK: OnceLock<Level> = OnceLock::new();
    *MASK.get_or_init(|| match from_variable() {
        Ok(None) => Level(NAMES.len() as u8 - 1),
        Ok(Some(level)) => level,
        Err(_) => Level(0),
    })
}

/// The position of a feature's level. A feature without a line does not compile: it would count as present at every level.
#[cfg(target_arch = "aarch64")]
const fn level_of(feature: &[u8]) -> u8 {
    match feature {
        b"crc" | b"aes" | b"pmull" | b"sha2" => 1,
        b"sha3" | b"lse" | b"dotprod" => 2,
        [b's', b'v', b'e', ..] => 3,
        b"neon" => 0,
        _ => panic!("a feature without a level in cpu_level.rs"),
    }
}

#[cfg(not(target_arch = "aarch64"))]
const fn level_of(feature: &[u8]) -> u8 {
    match feature {
        [b'a', b'v', b'x', b'5', b'1', b'2', ..] => 4,
        b"vaes" | b"vpclmulqdq" | b"gfni" => 3,
        b"avx" | b"avx2" | b"bmi1" | b"bmi2" | b"lzcnt" | b"fma" | b"f16c" | b"movbe" => 2,
        b"sse3" | b"ssse3" | b"sse4.1" | b"sse4.2" | b"popcnt" | b"pclmulqdq" | b"aes" | b"sha" => {
            1
        }
        b"sse" | b"sse2" => 0,
        _ => panic!("a feature without a level in cpu_level.rs"),
    }
}

/// The CPU's own level: the highest all of whose features it has.
fn cpu() -> Level {
    static CPU: OnceLock<Level> = OnceLock::new();
    *CPU.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        let has = [
            is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("popcnt"),
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2"),
            is_x86_feature_detected!("vaes") && is_x86_feature_detected!("vpclmulqdq"),
            is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl"),
        ];
        #[cfg(target_arch = "aarch64")]
        let has = {
            use std::arch::is_aarch64_feature_detected;
            [
                is_aarch64_feature_detected!("aes") && is_aarch64_feature_detected!("crc"),
                is_aarch64_feature_detected!("dotprod"),
                is_aarch64_feature_detected!("sve2"),
            ]
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let has: [bool; 0] = [];
        // AVX-512 came before VAES: a CPU with the first and not the second counts as the fourth level all the same.
        let highest = has.iter().rposition(|has| *has);
        Level(highest.map_or(0, |at| at as u8 + 1))
    })
}

/// Whether this CPU has all of these features, and [`VARIABLE`](crate::cpu_level::VARIABLE) hides none of them:
/// `has!(is_x86_feature_detected: "avx2", "bmi1")`.
#[macro_export]
macro_rules! has {
    ($detect:ident: $($feature:tt),+ $(,)?) => {{
        const LEVEL: $crate::cpu_level::Level = $crate::cpu_level::Level::of(&[$($feature),+]);
        LEVEL.is_allowed() && $(::std::arch::$detect!($feature))&&+
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_levels_are_in_order() {
        for pair in NAMES.windows(2) {
            let [low, high] = [pair[0], pair[1]].map(|name| Level::named(name).expect("a level"));
            assert!(low < high, "{} {}", low.name(), high.name());
        }
        let error = Level::named("x86-64-v9").expect_err("no level");
        assert!(
            error.contains(NAMES[0]) && error.contains("x86-64-v9"),
            "{error}"
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_level_of_features_is_that_of_the_highest() {
        assert_eq!(
            Level::of(&["sse4.2", "avx512vl", "bmi2"]).name(),
            "x86-64-v4"
        );
        assert_eq!(Level::of(&["avx2", "gfni"]).name(), "x86-64-v3-vaes");
        assert_eq!(Level::of(&["aes", "sse4.1"]).name(), "x86-64-v2");
        assert_eq!(Level::of(&[]).name(), "x86-64-v1");
    }

    /// The variable is read once a process, so each value has a process of its own: this test, started again.
    #[cfg_attr(miri, ignore = "it starts a process")]
    #[test]
    fn the_variable_hides_what_is_above_it() {
        const INNER: &str = "DPB_TEST_LEVEL";
        if std::env::var_os(INNER).is_some() {
            println!(
                "level={} masked={}",
                Level::here().name(),
                Level::is_masked()
            );
            println!("checked={:?}", check());
            #[cfg(target_arch = "x86_64")]
            assert!(!crate::has!(is_x86_feature_detected: "sse4.2"));
            return;
        }
        let run = |value: &str| {
            let test = std::env::current_exe().expect("this test");
            let name = "cpu_level::tests::the_variable_hides_what_is_above_it";
            let output = std::process::Command::new(test)
                .args([name, "--exact", "--nocapture"])
                .env(INNER, "1")
                .env(VARIABLE, value)
                .output()
                .expect("runs");
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let lowest = run(NAMES[0]);
        assert!(lowest.contains(&format!("level={}", NAMES[0])), "{lowest}");
        assert!(lowest.contains("checked=Ok"), "{lowest}");
        let unknown = run("x86-64-v9");
        assert!(unknown.contains("checked=Err"), "{unknown}");
        assert!(
            unknown.contains(&format!("level={}", NAMES[0])),
            "{unknown}"
        );
    }
}
