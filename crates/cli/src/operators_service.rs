//! The service that an agent has for the family `remote` of other machines: dpb's backends and operators.

use std::sync::Arc;

use dpb_core::{Families, OpSpec, OpenError, ParameterValue, SetupError, Unsupported};
use dpb_link::Service;
use dpb_link::bulk::Duplex;
use dpb_link::operators::{OperatorsService, Quotas, Resolve};
use dpb_operators::registry::Operators;

/// The service over `families`, whose operators are `operators`, of which clients get no more than `quotas`. `duplex` is the transport of
/// clients that ask for one, or what they are told.
pub fn service(
    families: Families,
    operators: Operators,
    quotas: Quotas,
    duplex: Result<Arc<dyn Duplex>, String>,
) -> Arc<dyn Service> {
    let open = move |name: &str| match families.open(name) {
        Ok(backend) => Ok(backend),
        Err(OpenError::Absent(why)) => Err(why),
        Err(OpenError::NoSuch(reason)) => Err(Unsupported { reason }),
    };
    let service = OperatorsService::new(Box::new(open), specs(operators));
    Arc::new(service.with_quotas(quotas).with_duplex(duplex))
}

/// Makes specs of what crosses.
pub fn specs(operators: Operators) -> impl Resolve + 'static {
    move |name: &str, values: &[(&str, ParameterValue)]| -> Result<OpSpec, SetupError> {
        operators.spec_from(name, values)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    use dpb_core::conformance;
    use dpb_link::{Agent, AgentOptions};

    use super::*;
    use crate::backends;

    /// The whole of dpb's operators and backends at both ends; a scan of a file cannot be sent, and says so.
    #[test]
    fn what_dpb_has_is_had_from_an_agent() {
        let operators = Operators::new(&[
            dpb_operators::registry::OPERATORS,
            crate::operators::DATABASE,
        ]);
        let families = backends::families(&[], operators);
        let listen = "127.0.0.1:0".parse().expect("an address");
        let agent = Agent::bind(
            AgentOptions::new(listen),
            vec![service(
                families,
                operators,
                Quotas::default(),
                Err("it has none".to_owned()),
            )],
        );
        let agent = agent.expect("loopback");
        let address = agent.address();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| agent.run(&|| stop.load(Ordering::Relaxed)));
            let tried = catch_unwind(AssertUnwindSafe(|| {
                let name = format!("remote/{address}/pool/2");
                let backend = families.open(&name).expect("listed");
                let entry = operators.find("deflate").expect("registered");
                let workload = entry.workload(entry.default_case()).expect("its own spec");
                let coverage = conformance::check(&*backend, &[&*workload]);
                assert!(coverage.expect("it conforms").items > 0);
                let scan = operators.find("scan").expect("registered").default_spec();
                let why = backend.limits(&scan).expect_err("a table").reason;
                assert!(why.contains("its content"), "{why}");
                // Which end lacks a transport depends on where this runs.
                let name = format!("remote-rdma/{address}/cpu");
                let backend = families.open(&name).expect("a backend that says why");
                let crc32c = operators.find("crc32c").expect("registered").default_spec();
                let why = backend
                    .limits(&crc32c)
                    .expect_err("the agent has none")
                    .reason;
                let is_named = why.contains("this end: ") || why.contains("the agent: it has none");
                assert!(is_named && why.starts_with(&name), "{why}");
            }));
            stop.store(true, Ordering::Relaxed);
            tried.expect("as above");
        });
    }
}
