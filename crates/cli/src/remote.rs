//! Operators of other machines: the family `remote`, and the service that an agent has for it.

use std::env;
use std::path::Path;
use std::sync::Arc;

use dpb_core::{Families, OpSpec, OpenError, ParameterValue, SetupError, Unsupported};
use dpb_link::operators::{OperatorsService, Remote, Resolve, Sessions};
use dpb_link::{ClientCredentials, Pass, Service, Token};
use dpb_operators::registry::Operators;

use crate::cmd::serve::read_token;

/// Names the file by which clients know an agent on another machine, `client.credentials` of `dpb serve init`.
const CREDENTIALS: &str = "DPB_CREDENTIALS";
/// Names the file with the token of an agent on loopback.
const TOKEN_FILE: &str = "DPB_TOKEN_FILE";

/// The family `remote`. Its backends show what [`CREDENTIALS`] or [`TOKEN_FILE`] names: a flag would be in every record, and a file of secrets
/// belongs to whoever runs the test, not to the test.
pub fn family(operators: Operators) -> Remote {
    Remote::new(Sessions::new(pass), specs(operators))
}

/// The service over `families`, whose operators are `operators`.
#[cfg_attr(
    not(test),
    allow(dead_code, reason = "`dpb serve` is no agent of sessions yet")
)]
pub fn service(families: Families, operators: Operators) -> Arc<dyn Service> {
    let open = move |name: &str| match families.open(name) {
        Ok(backend) => Ok(backend),
        Err(OpenError::Absent(why)) => Err(why),
        Err(OpenError::NoSuch(reason)) => Err(Unsupported { reason }),
    };
    Arc::new(OperatorsService::new(Box::new(open), specs(operators)))
}

/// Makes specs of what crosses.
fn specs(operators: Operators) -> impl Resolve + 'static {
    move |name: &str, values: &[(&str, ParameterValue)]| -> Result<OpSpec, SetupError> {
        operators.spec_from(name, values)
    }
}

fn pass() -> Result<Pass, String> {
    if let Some(path) = env::var_os(CREDENTIALS) {
        let credentials = ClientCredentials::load(Path::new(&path));
        let credentials = credentials.map_err(|why| format!("{CREDENTIALS}: {why}"))?;
        return Ok(Pass::Credentials(credentials));
    }
    let Some(path) = env::var_os(TOKEN_FILE) else {
        return Ok(Pass::None);
    };
    let token = read_token(Path::new(&path));
    let token = token.map_err(|why| format!("{TOKEN_FILE}: {}", why.message))?;
    let token = Token::new(token).map_err(|why| format!("{TOKEN_FILE}: {why}"))?;
    Ok(Pass::Token(token))
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
            vec![service(families, operators)],
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
            }));
            stop.store(true, Ordering::Relaxed);
            tried.expect("as above");
        });
    }
}
