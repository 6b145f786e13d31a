//! Operators of other machines: the families `remote` and `remote-rdma`.

use std::env;
use std::path::Path;
use std::sync::Arc;

use dpb_link::operators::{Remote, Sessions};
use dpb_link::{ClientCredentials, Pass, Token};
use dpb_operators::registry::Operators;

use crate::bulk::Rdma;
use crate::cmd::serve::read_token;
use crate::operators_service::specs;

/// Names the file by which clients know an agent on another machine, `client.credentials` of `dpb serve init`.
const CREDENTIALS: &str = "DPB_CREDENTIALS";
/// Names the file with the token of an agent on loopback.
const TOKEN_FILE: &str = "DPB_TOKEN_FILE";

/// Names the RDMA device of this machine by which items and outputs go; without it the first whose port is up.
const RDMA_DEVICE: &str = "DPB_RDMA_DEVICE";

/// The family `remote`. Its backends show what [`CREDENTIALS`] or [`TOKEN_FILE`] names: a flag would be in every record, and a file of secrets
/// belongs to whoever runs the test, not to the test.
pub fn family(operators: Operators) -> Remote {
    Remote::new(Sessions::new(pass), specs(operators))
}

/// The family `remote-rdma`: the same whose large items and outputs go by RDMA.
pub fn rdma_family(operators: Operators) -> Remote {
    let device = env::var(RDMA_DEVICE).ok().filter(|name| !name.is_empty());
    family(operators).beside("remote-rdma", "RDMA", Arc::new(Rdma::new(device)))
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
