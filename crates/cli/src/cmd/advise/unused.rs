//! Flags that a question has no use for: none is dropped in silence.

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::{Args, Wanted};
use crate::exit::Failure;

/// Refuses flags that were given and change nothing.
///
/// # Errors
/// Wrong usage.
pub(super) fn refuse(args: &Args, matches: &ArgMatches) -> Result<(), Failure> {
    let is_pushdown = args.goal == Wanted::Pushdown;
    let has_files = !args.files.is_empty();
    // A box gives each of its tests a seed.
    let unused: [(bool, &[&str], &str); 4] = [
        (
            is_pushdown,
            &[
                "operator",
                "parameters",
                "host",
                "device",
                "batch",
                "rate",
                "price",
                "round_trip",
                "size",
                "depth",
                "threads",
                "seconds",
                "warm_up",
            ],
            "is of no use to --goal pushdown",
        ),
        (!is_pushdown, &["sf"], "is of --goal pushdown alone"),
        (
            args.goal != Wanted::Slo,
            &["limit"],
            "is of --goal slo alone",
        ),
        (
            has_files,
            &["size", "depth", "threads", "seed"],
            "is of what is measured, and the files have that already",
        ),
    ];
    for (is_unused, names, why) in unused {
        let is_given = |name: &&&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        if let Some(name) = names.iter().find(is_given).filter(|_| is_unused) {
            let flag = name.replace('_', "-");
            return Err(Failure::usage(format!("--{flag} {why}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example that does not parse is none.
    #[test]
    fn the_help_s_examples_are_command_lines() {
        let command = crate::command();
        let own = command.find_subcommand("advise").expect("the verb");
        let help = own.get_after_help().expect("examples").to_string();
        let examples = help
            .lines()
            .filter_map(|line| line.trim().strip_prefix("dpb "));
        let mut seen = 0;
        for example in examples {
            let parsed = crate::command()
                .try_get_matches_from(["dpb"].into_iter().chain(example.split_whitespace()));
            let matches = parsed.unwrap_or_else(|why| panic!("{example}: {why}"));
            let (_, flags) = matches.subcommand().expect("a verb");
            let args: Args = crate::task::flags(flags).unwrap_or_else(|_| panic!("{example}"));
            refuse(&args, flags).unwrap_or_else(|why| panic!("{example}: {}", why.message));
            seen += 1;
        }
        assert!(seen >= 6, "{help}");
    }
}
