//! The CPU's maker, where it decides which of two paths is the faster one: instruction sets say what runs, not how fast.
//!
//! SHA-1 asks for it to choose its path, and long CRC-32Cs to choose their parts. Intel's instructions for SHA-1 hardly overlap: on a Xeon of 2023 a block takes
//! them 118 cycles, with one message and with three side by side, and eight messages in AVX2's vectors take 66 cycles a block. AMD's start one in every second cycle and so
//! take 40 by tables of instructions (Zen 4), fewer than vectors would; that is not measured. A rule by families would be finer; a
//! measurement at the start of a program would make its paths, and so its records, a matter of chance.

use std::sync::OnceLock;

/// A maker of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// AMD, and Hygon, whose CPUs are AMD's Zen.
    Amd,
    /// Any other, Intel among them, and that of every CPU that is not x86-64.
    Other,
}

impl Vendor {
    /// The maker of this CPU.
    pub fn here() -> Self {
        static HERE: OnceLock<Vendor> = OnceLock::new();
        *HERE.get_or_init(|| Self::named(&name()))
    }

    /// The maker that calls itself so in leaf 0 of `cpuid` (AMD64 Architecture Programmer's Manual, volume 3, appendix E; Intel's
    /// manual, volume 2A, CPUID).
    fn named(name: &[u8; 12]) -> Self {
        match name {
            b"AuthenticAMD" | b"HygonGenuine" => Self::Amd,
            _ => Self::Other,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn name() -> [u8; 12] {
    let said = std::arch::x86_64::__cpuid(0);
    let mut name = [0; 12];
    for (bytes, register) in name
        .as_chunks_mut()
        .0
        .iter_mut()
        .zip([said.ebx, said.edx, said.ecx])
    {
        *bytes = register.to_le_bytes();
    }
    name
}

#[cfg(not(target_arch = "x86_64"))]
fn name() -> [u8; 12] {
    [0; 12]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makers_are_known_by_what_cpuid_says() {
        assert_eq!(Vendor::named(b"GenuineIntel"), Vendor::Other);
        assert_eq!(Vendor::named(b"AuthenticAMD"), Vendor::Amd);
        assert_eq!(Vendor::named(b"HygonGenuine"), Vendor::Amd);
        assert_eq!(Vendor::named(b"CentaurHauls"), Vendor::Other);
    }

    /// Linux says the same name.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[cfg_attr(miri, ignore = "it asks the CPU")]
    #[test]
    fn this_cpu_is_of_the_maker_that_linux_names() {
        let said = std::fs::read_to_string("/proc/cpuinfo").expect("readable");
        let line = said.lines().find(|line| line.starts_with("vendor_id"));
        let (_, linux) = line.expect("a vendor").split_once(": ").expect("a name");
        assert_eq!(name().as_slice(), linux.as_bytes());
    }
}
