//! RDMA through verbs: memory of peers.
//!
//! libibverbs is loaded at run time. [`Rdma`] has a backend for each device, `rdma/mlx5_0`: it copies, by writes between two
//! queue pairs of its own, between registered buffers. [`mod@bench`] measures as perftest does, and talks to perftest's programs;
//! [`mod@bulk`] carries large bodies between two machines.
//!
//! | seam | verbs |
//! |---|---|
//! | [`Backend::alloc`] | `ibv_reg_mr` |
//! | [`Operator`](dpb_core::Operator) | a protection domain and a port |
//! | [`Queue`](dpb_core::Queue) | two queue pairs and their completion queue |
//! | `submit` | `ibv_post_send` of a chain, its last request signalled |
//! | `poll` | `ibv_poll_cq` |
//! | [`JobError::Device`](dpb_core::JobError::Device) | the completion's status, which [`status_text`] puts in words; below zero an error number of the system |

mod backend;
pub mod bench;
pub mod bulk;

mod port;
mod raw;
mod sys;

use dpb_core::{Backend, Family, Finding, Listed, OpenError, Unsupported};

use backend::Copies;
use port::{Device, Problem};

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Rdma;

impl Family for Rdma {
    fn name(&self) -> &'static str {
        "rdma"
    }

    fn backends(&self) -> Vec<Listed> {
        let names = port::device_names().unwrap_or_default();
        if names.is_empty() {
            return vec![listed(
                "DEVICE",
                false,
                "a device that `dpb doctor` finds".into(),
            )];
        }
        let here = |name: &String| match Device::open(name) {
            Ok(device) => listed(name, true, device.describe()),
            Err(problem) => listed(name, false, problem.to_string()),
        };
        names.iter().map(here).collect()
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError> {
        let unsupported = |problem: Problem| Unsupported {
            reason: problem.to_string(),
        };
        let device = Device::open(instance).map_err(unsupported)?;
        let backend = Copies::new(device).map_err(unsupported)?;
        Ok(Box::new(backend))
    }

    fn findings(&self) -> Vec<Finding> {
        let library = match raw::verbs() {
            Ok(verbs) => Finding::found("library", verbs.version()),
            Err(why) => {
                let remedy = "apt-get install libibverbs1 ibverbs-providers";
                return vec![Finding::missing("library", why, remedy)];
            }
        };
        let devices = match port::device_names() {
            Ok(names) if !names.is_empty() => names.iter().map(|name| found(name)).collect(),
            Ok(_) => vec![Finding::missing("devices", "none", NO_DEVICE)],
            Err(why) => vec![Finding::missing("devices", why.to_string(), NO_DEVICE)],
        };
        [library].into_iter().chain(devices).collect()
    }
}

const NO_DEVICE: &str = "load the card's driver (mlx5_ib …); without a card, soft-RoCE: modprobe rdma_rxe && rdma link \
                         add rxe0 type rxe netdev eth0";

fn listed(instance: &str, is_here: bool, details: String) -> Listed {
    Listed {
        instance: instance.to_owned(),
        is_here,
        summary: "copy, by RDMA writes of a device to itself".into(),
        details,
    }
}

fn found(name: &str) -> Finding {
    let what = format!("device {name}");
    match Device::open(name) {
        Ok(device) => Finding::found(what, device.describe()),
        Err(problem) => {
            let remedy = problem.remedy().to_owned();
            Finding::limited(what, problem.to_string(), remedy)
        }
    }
}

/// A completion's status in the library's words: the code in
/// [`JobError::Device`](dpb_core::JobError::Device). `None` if the library is not here.
pub fn status_text(status: i32) -> Option<String> {
    raw::verbs().ok().map(|verbs| verbs.status_text(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpb_core::family::State;

    /// Holds wherever the tests run: with nothing, with the library alone, with a device.
    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let findings = Rdma.findings();
        for finding in &findings {
            let is_found = finding.state == State::Found;
            assert_eq!(is_found, finding.remedy.is_empty(), "{finding:?}");
        }
        assert_eq!(findings[0].what, "library");
        let refused = Rdma.open("no-such-device").err().expect("there is none");
        assert!(!refused.to_string().is_empty());
        for backend in Rdma.backends() {
            assert_eq!(backend.is_here, Rdma.open(&backend.instance).is_ok());
        }
    }

    #[test]
    fn a_status_is_put_in_words_where_the_library_is() {
        match status_text(0) {
            Some(text) => assert_eq!(text, "success"),
            None => println!("skipped: no libibverbs.so.1; apt-get install libibverbs1"),
        }
    }
}
