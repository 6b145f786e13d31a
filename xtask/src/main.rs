//! Development commands of dpb, as Rust.
#![forbid(unsafe_code)]

use clap::Parser;

mod setup;

#[derive(Parser)]
#[command(name = "xtask", about = "Development commands of dpb")]
enum Command {
    /// Find or fetch what is optional, and say what was done
    Setup(setup::Options),
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Setup(options) => setup::run(&options),
    }
}
