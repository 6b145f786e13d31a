//! The speed at which a program is watched: `cargo run --release -p dpb-insight --example watch_speed -- [--mica] SOURCE PROGRAM ARGUMENTS…`

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use dpb_insight::source::{Program, Source};
use dpb_insight::trace::{Geometry, Isa, Options};

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mica = words.first().is_some_and(|word| word == "--mica");
    if mica {
        words.remove(0);
    }
    let [source, path, arguments @ ..] = &words[..] else {
        panic!("[--mica] SOURCE PROGRAM ARGUMENTS…");
    };
    let source = Source::ALL.into_iter().find(|it| it.name() == source);
    let source = source.expect("pmu, qemu, lackey or step");
    let program = Program {
        path: path.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        variables: Vec::new(),
        isa: Isa::HOST,
        says_begin: false,
    };
    let options = Options {
        geometry: Geometry::NAMED[0],
        mica_from: mica.then_some(0),
        working_set_from: 0,
        has_models: true,
    };
    let started = Instant::now();
    let watched = source.watch(&program, options, &AtomicBool::new(false));
    let watched = watched.unwrap_or_else(|why| panic!("{why}"));
    let instructions = watched.tally.count("instructions").unwrap_or(0);
    let took_s = started.elapsed().as_secs_f64();
    println!(
        "{}: {instructions} instructions, {:.1} M/s",
        watched.by,
        instructions as f64 / took_s / 1e6
    );
    for (name, value) in watched.tally.metrics(None) {
        println!("{name} {value:.6}");
    }
}
