//! Operators of other machines: the family `remote`.

use std::env;
use std::path::Path;

use dpb_link::operators::{Remote, Sessions};
use dpb_link::{ClientCredentials, Pass, Token};
use dpb_operators::registry::Operators;

use crate::cmd::serve::read_token;
use crate::operators_service::specs;

/// Names the file by which clients know an agent on another machine, `client.credentials` of `dpb serve init`.
const CREDENTIALS: &str = "DPB_CREDENTIALS";
/// Names the file with the token of an agent on loopback.
const TOKEN_FILE: &str = "DPB_TOKEN_FILE";

/// The family `remote`. Its backends show what [`CREDENTIALS`] or [`TOKEN_FILE`] names: a flag would be in every record, and a file of secrets
/// belongs to whoever runs the test, not to the test.
pub fn family(operators: Operators) -> Remote {
    Remote::new(Sessions::new(pass), specs(operators))
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
