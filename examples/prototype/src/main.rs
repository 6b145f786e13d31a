//! `dpb` with one operator and one family of backends more:
//!
//! ```text
//! cargo run --release -p prototype -- op adler32 --backend cpu,pool/2,card,sim/default
//! cargo run --release -p prototype -- list
//! ```
#![forbid(unsafe_code)]

use std::process::ExitCode;

use prototype::{ADLER32, Cards};

fn main() -> ExitCode {
    dpb_cli::Dpb::new()
        .with_operators(&[ADLER32])
        .with_families(&[&Cards])
        .main()
}
