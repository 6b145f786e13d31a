//! `dpb serve init`: credentials for an agent and its clients.

use std::env;
use std::path::{Path, PathBuf};

use dpb_link::tls::CLIENT_FILE;
use dpb_link::{CredentialsError, ServerCredentials};
use serde::Serialize;

use crate::Globals;
use crate::exit::Failure;
use crate::output::{self, Format};

/// Where credentials are made.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Give the file client.credentials of the folder to the clients, by a way that nobody else reads: it holds the \
                  token. The key stays here.\nExample:\n  dpb serve init ~/dpb-credentials"
)]
pub struct Args {
    /// The new folder [default: dpb/credentials in $XDG_CONFIG_HOME or ~/.config; without HOME ./dpb-credentials]
    #[arg(value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

/// What was made.
#[derive(Debug, Serialize)]
struct Report {
    folder: PathBuf,
    client_file: PathBuf,
    fingerprint: String,
}

/// Makes credentials, and says where they are.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let folder = args.dir.clone().unwrap_or_else(default_dir);
    let made = ServerCredentials::make(&folder).map_err(|error| match error {
        CredentialsError::Exists(_) => Failure::usage(error.to_string()),
        _ => Failure::check(error.to_string()),
    })?;
    let report = Report {
        client_file: folder.join(CLIENT_FILE),
        fingerprint: made.fingerprint().to_string(),
        folder,
    };
    if globals.format() == Format::Json {
        return output::print_json(&report);
    }
    output::print(&format!(
        "credentials in {}, certificate {}\nhere:       dpb serve --listen ADDRESS:7400 --credentials {}\nclients:    dpb pushdown \
         --server ADDRESS:7400 --credentials FILE, where FILE is a copy of {}\n",
        report.folder.display(),
        report.fingerprint,
        report.folder.display(),
        report.client_file.display(),
    ))
}

fn default_dir() -> PathBuf {
    let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let config = given("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(Path::new(&given("HOME")?).join(".config")));
    match config {
        Some(config) => config.join("dpb/credentials"),
        None => PathBuf::from("dpb-credentials"),
    }
}
