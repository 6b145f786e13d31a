//! The program `dpb`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    dpb_cli::Dpb::new().main()
}
