//! Systems out of descriptions: where time went, flows and their fates, cards on and off the path, traces.

mod cards;
mod flows;
mod refused;
mod traces;
mod ways;

use std::sync::Arc;

use dpb_core::conformance::sample::Sample;
use dpb_core::{Backend, OpSpec, Operator, SetupError, spec};
use dpb_sim::system::System;

fn prepare(_: &str) -> Result<Arc<dyn Operator>, SetupError> {
    Sample::new(None).prepare(&OpSpec::from(spec::Crc32c))
}

/// The system of this text.
fn assemble(text: &str, seed: u64, threads: usize) -> System {
    let description = text.parse().expect("a description");
    System::assemble(&description, &prepare, seed, threads).expect("a system")
}

/// The same with an account of the way of frames, run to its end.
fn run(text: &str, seed: u64) -> System {
    let mut system = assemble(text, seed, 1);
    system.observe(true, None);
    assert!(system.run().expect("nothing fails"), "it finishes");
    system
}

/// A server, a client and a switch between them, with more of each.
fn pair(server: &str, client: &str, more: &str) -> String {
    format!(
        r#"
        [[host]]
        name = "server"
        {server}
        [[host]]
        name = "client"
        {client}
        [[switch]]
        name = "switch"
        [[link]]
        ends = ["server", "switch"]
        latency_ns = 500
        [[link]]
        ends = ["switch", "client"]
        latency_ns = 500
        {more}
        "#
    )
}
