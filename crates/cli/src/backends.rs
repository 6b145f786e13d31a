//! The backends that `dpb` has, as families, and how their names are written in lists.

use dpb_accel::{doca::Doca, dpdk::Dpdk, rdma::Rdma};
use dpb_core::{Backend, Families};
use dpb_operators::cpu::{Cpu, CpuPaths, Pools};
use dpb_sim::{Faultiness, Models};

use crate::args::{self, List};

static MODELS: Models = Models::new(best);
static FAULTINESS: Faultiness = Faultiness::new(best);

/// All families, in the order of lists.
pub static FAMILIES: Families =
    Families::new(&[&CpuPaths, &Pools, &MODELS, &FAULTINESS, &Doca, &Dpdk, &Rdma]);

/// What models and faults take their results from.
fn best() -> Box<dyn Backend> {
    Box::new(Cpu::best())
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
    use super::*;

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
        let spec = dpb_core::OpSpec::Crc32c;
        let absent = FAMILIES.open("rdma/no-such-device");
        let absent = absent.expect("a backend that says why");
        assert_eq!(absent.name(), "rdma/no-such-device");
        let why = absent.limits(&spec).expect_err("there is none").reason;
        assert!(!why.is_empty());
    }
}
