//! The backends that `dpb` has, as families, and how their names are written in lists.

use dpb_accel::{doca::Doca, dpdk::Dpdk, rdma::Rdma};
use dpb_core::{Families, Family};
use dpb_operators::cpu::{self, Cpu, CpuPaths, Pools};
use dpb_operators::registry::Operators;
use dpb_sim::{Faultiness, Models, OpenInner};

use crate::args::{self, List};
use crate::remote;

/// All families, in the order of lists: `first`, then dpb's, whose kernels are those of `operators`. They are kept as long as the
/// process.
pub fn families(first: &[&'static dyn Family], operators: Operators) -> Families {
    let best = move || cpu::with_chains(Cpu::best().with_operators(operators));
    let best: OpenInner = Box::leak(Box::new(best));
    let mut families = first.to_vec();
    families.extend([
        kept(CpuPaths::new(operators)),
        kept(Pools::new(operators)),
        kept(Models::new(best)),
        kept(Faultiness::new(best)),
        &Doca,
        &Dpdk,
        &Rdma,
        kept(remote::family(operators)),
        kept(remote::rdma_family(operators)),
    ]);
    Families::new(families.leak())
}

fn kept(family: impl Family + 'static) -> &'static dyn Family {
    Box::leak(Box::new(family))
}

/// Names with commas between them. A backend's own commas are told by what follows them, for no name is a bare `NAME=VALUE`:
/// `sim/lanes=2,job_ns=500,cpu/best` is two names.
///
/// # Errors
/// If a name is missing beside a comma.
pub fn names(text: &str) -> Result<List<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for word in args::words(text)?.0 {
        match names.last_mut() {
            Some(last) if word.contains('=') && !word.contains('/') => {
                last.push(',');
                last.push_str(&word);
            }
            _ => names.push(word),
        }
    }
    Ok(List(names))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use dpb_core::spec;

    use super::*;

    static FAMILIES: LazyLock<Families> = LazyLock::new(|| families(&[], Operators::DPB));

    #[test]
    fn a_models_commas_are_its_own() {
        let names =
            names("cpu/best,sim/lanes=2,job_ns=500,pool/2,sim/default").expect("four names");
        assert_eq!(
            names.0,
            [
                "cpu/best",
                "sim/lanes=2,job_ns=500",
                "pool/2",
                "sim/default"
            ]
        );
        for name in &names {
            assert_eq!(FAMILIES.open(name).expect("known").name(), name);
        }
        for (wrong, said) in [
            ("sim/wings=2", "lanes"),
            ("gpu/best", "cpu/best"),
            ("pool/99999999", "at most"),
        ] {
            let why = FAMILIES.open(wrong).err().expect("wrong").to_string();
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn a_device_that_is_not_here_is_a_backend_that_says_why() {
        let spec = dpb_core::OpSpec::from(spec::Crc32c);
        let absent = FAMILIES.open("rdma/no-such-device");
        let absent = absent.expect("a backend that says why");
        assert_eq!(absent.name(), "rdma/no-such-device");
        let why = absent.limits(&spec).expect_err("there is none").reason;
        assert!(!why.is_empty());
    }
}
