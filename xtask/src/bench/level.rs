//! A machine made to look like one of a lower level of instruction sets, for dpb and for the libraries that can be told.

/// What can be asked for.
pub(super) const LEVELS: [&str; 3] = ["x86-64-v2", "x86-64-v3", "x86-64-v3-vaes"];

/// Bits of what leaf 7 of `cpuid` says (EBX, and ECX 32 above it): AVX-512 F, DQ, IFMA, CD, BW, VL, VBMI, VBMI2, VNNI, BITALG,
/// VPOPCNTDQ.
const AVX512: u64 = bits(&[16, 17, 21, 28, 30, 31, 33, 38, 43, 44, 46]);
/// GFNI, VAES, VPCLMULQDQ.
const VAES: u64 = bits(&[40, 41, 42]);
/// BMI1, AVX2, BMI2, ADX.
const AVX2: u64 = bits(&[3, 5, 8, 19]);
/// Bits of what leaf 1 says (EDX, and ECX 32 above it): FMA, MOVBE, AVX, F16C.
const AVX: u64 = bits(&[44, 54, 60, 61]);

const fn bits(positions: &[u32]) -> u64 {
    let (mut bits, mut i) = (0, 0);
    while i < positions.len() {
        bits |= 1 << positions[i];
        i += 1;
    }
    bits
}

/// The environment of a program that is kept to `level`: dpb's own variable, glibc's and OpenSSL's (AWS-LC reads the latter too).
/// DPDK and ipsec-mb are told by the program itself.
pub(super) fn variables(level: &str) -> [(&'static str, String); 3] {
    const AVX512_IN_GLIBC: &str = "-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD";
    const AVX2_IN_GLIBC: &str = "-AVX2,-AVX,-BMI1,-BMI2,-LZCNT,-MOVBE,-FMA,-F16C";
    let (leaf_1, leaf_7, glibc) = match level {
        "x86-64-v3-vaes" => (0, AVX512, AVX512_IN_GLIBC.to_owned()),
        "x86-64-v3" => (0, AVX512 | VAES, AVX512_IN_GLIBC.to_owned()),
        _ => (
            AVX,
            AVX512 | VAES | AVX2,
            format!("{AVX512_IN_GLIBC},{AVX2_IN_GLIBC}"),
        ),
    };
    [
        ("DPB_CPU_LEVEL", level.to_owned()),
        ("GLIBC_TUNABLES", format!("glibc.cpu.hwcaps={glibc}")),
        ("OPENSSL_ia32cap", format!("~{leaf_1:#x}:~{leaf_7:#x}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By Intel's manual, volume 2A, CPUID: AVX2 is bit 5 of EBX, AVX-512 F bit 16, VAES bit 9 of ECX.
    #[test]
    fn each_level_hides_what_lies_above_it() {
        let hidden = |level: &str| {
            let [_, _, (_, cap)] = variables(level);
            let (_, digits) = cap.rsplit_once(":~0x").expect("a mask");
            u64::from_str_radix(digits, 16).expect("hexadecimal")
        };
        let has = |level: &str, bit: u32| hidden(level) >> bit & 1 == 0;
        assert!(has("x86-64-v3-vaes", 32 + 9) && !has("x86-64-v3-vaes", 16));
        assert!(has("x86-64-v3", 5) && !has("x86-64-v3", 32 + 9));
        assert!(!has("x86-64-v2", 5));
    }
}
