//! The tests of the whole workspace, and what is run once they are built: two pieces at a time.

use super::built::{self, Ran, Shown};
use super::lanes::side_by_side;
use super::{Part, Tally, levels, skipped};
use crate::bench::programs::{self, Program};
use crate::{asan, shell, vm};

/// Test programs that must have the machine to themselves: the folder of the package, the name, the reason.
const ALONE: [(&str, &str, &str); 0] = [];

/// What a lane runs.
enum Piece<'a> {
    /// Parts that are no test programs of this build, one after another.
    Parts(fn(&mut Tally) -> Vec<Part>),
    Test(&'a Program),
    /// The same with the instructions above a level hidden.
    AtLevel(&'static str, &'a Program),
}

enum Done {
    Parts(Vec<Part>, Tally),
    Test(Ran),
    AtLevel(&'static str, Ran),
}

/// Builds all tests and runs everything.
pub(super) fn run(tally: &mut Tally) -> Vec<Part> {
    let mut programs = Vec::new();
    let build = Part::timed("build of all tests", || {
        programs = programs::build_tests(shell::cargo().args(["test", "--workspace"]))?;
        Ok(())
    });
    let (alone, beside): (Vec<_>, Vec<_>) = programs.iter().partition(|one| is_alone(one));
    let beside = built::by_length(beside);
    // The longest first. What cargo builds is in one piece, since two builds would wait for each other.
    let mut pieces = vec![
        Piece::Parts(|_| vec![guest(true), guests(true)]),
        Piece::Parts(what_cargo_runs),
        Piece::Parts(|_| vec![ends()]),
    ];
    pieces.extend(beside.iter().copied().map(Piece::Test));
    for level in levels::lower() {
        let of_kernels = beside.iter().filter(|program| levels::changes(program));
        pieces.extend(of_kernels.map(|program| Piece::AtLevel(level, program)));
    }
    let mut tests: Vec<Ran> = alone.into_iter().map(run_here).collect();
    let mut at_levels = Vec::new();
    let mut others = Vec::new();
    for done in side_by_side(pieces, run_piece) {
        match done {
            Done::Test(ran) => tests.push(ran),
            Done::AtLevel(level, ran) => at_levels.push((level, ran)),
            Done::Parts(parts, counted) => {
                others.extend(parts);
                tally.add(counted);
            }
        }
    }
    println!("\nThe longest programs: {}", built::longest(&tests));
    let (all, counted) = built::part("tests", tests);
    tally.add(counted);
    let mut parts = vec![build, all];
    for level in levels::lower() {
        let ran: Vec<Ran> = at_levels
            .extract_if(.., |(its, _)| its == level)
            .map(|(_, ran)| ran)
            .collect();
        // What a level lacks, its tests say each time; whoever reads the sum of all wants what this machine lacks.
        let (part, _) = built::part(&format!("paths at {level}"), ran);
        parts.push(part);
    }
    parts.extend(others);
    parts
}

fn is_alone(program: &Program) -> bool {
    ALONE.iter().any(|(folder, name, _)| {
        program.name == *name && program.folder == shell::root().join(folder)
    })
}

fn run_here(program: &Program) -> Ran {
    built::run("tests", program, Shown::Tests, |command| command)
}

fn run_piece(piece: Piece<'_>) -> Done {
    match piece {
        Piece::Parts(run) => {
            let mut tally = Tally::default();
            Done::Parts(run(&mut tally), tally)
        }
        Piece::Test(program) => Done::Test(run_here(program)),
        Piece::AtLevel(level, program) => Done::AtLevel(level, levels::run_at(level, program)),
    }
}

/// Examples in the documentation, benches, and the documentation itself, which cargo builds.
fn what_cargo_runs(tally: &mut Tally) -> Vec<Part> {
    let mut examples = shell::cargo();
    examples.args(["test", "--no-fail-fast", "--workspace", "--doc"]);
    skipped::ask(&mut examples, &[]);
    // Apart, since benches do not read the arguments of tests.
    let mut benches = shell::cargo();
    benches.args(["test", "--no-fail-fast", "--workspace", "--bench", "*"]);
    vec![
        tally.run("examples in the documentation", &mut examples),
        Part::timed("each bench once", || shell::run_whole(&mut benches)),
        documentation(),
    ]
}

pub(super) fn documentation() -> Part {
    let mut rustdoc = shell::cargo();
    rustdoc.args(["doc", "--workspace", "--no-deps"]);
    rustdoc.env("RUSTDOCFLAGS", "-D warnings");
    Part::timed("documentation", || shell::run_whole(&mut rustdoc))
}

pub(super) fn ends() -> Part {
    let name = "devices that end or break, under AddressSanitizer";
    match asan::missing() {
        None => Part::timed(name, asan::run_ends),
        Some(why) => Part::skipped(name, why),
    }
}

/// After all tests of the workspace, if all is built, or some of them.
pub(super) fn guest(all_is_built: bool) -> Part {
    let name = "RDMA on soft-RoCE, in a guest";
    match vm::missing() {
        None => Part::timed(name, || vm::test(all_is_built)),
        Some(why) => Part::skipped(name, why),
    }
}

/// The same, of guests that talk to each other.
pub(super) fn guests(all_is_built: bool) -> Part {
    let name = "two guests through modelled cards";
    match vm::sim_missing() {
        None => Part::timed(name, || vm::sim_test(all_is_built)),
        Some(why) => Part::skipped(name, why),
    }
}
