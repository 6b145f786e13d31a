//! A copy of the repository of Liu et al. (SmartNIC-WU on GitHub), as published platforms: the results of stress-ng that their section III rests on.
//!
//! `results/stress-ng/SITE/PLATFORM/…/sequential-all_60s.yaml.1` and so on are what stress-ng wrote in each run; the means in the files beside them are not read.
//! `benchmarks/stress-ng/scripts/stressor_classes.txt` has each stressor's classes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dpb_core::measure::import::{Origin, Program};
use dpb_core::measure::{Evidence, Record};

use super::{folders_of, read};
use crate::exit::Failure;
use crate::report::published::works;

/// The results below a copy.
const RESULTS: &str = "results/stress-ng";
/// The stressors' classes.
const CLASSES: &str = "benchmarks/stress-ng/scripts/stressor_classes.txt";
/// The work's name in its data file.
const SHORT: &str = "Liu et al.";
/// Folders below a platform's: the mode that its card ran in.
const DEPTH_MAX: usize = 3;

/// True if the folder is a copy of the repository.
pub(super) fn is_copy(folder: &Path) -> bool {
    folder.join(RESULTS).is_dir() && folder.join(CLASSES).is_file()
}

/// The records of all runs of a copy. The files of one platform and one time are to be merged.
///
/// # Errors
/// If a file cannot be read, or is none of stress-ng's.
pub(super) fn records(folder: &Path) -> Result<Vec<Record>, Failure> {
    let classes = classes(&read(&folder.join(CLASSES))?);
    let mut records = Vec::new();
    for site in folders_of(&folder.join(RESULTS))? {
        for platform in folders_of(&site)? {
            let mut files = Vec::new();
            runs(&platform, DEPTH_MAX, &mut files)?;
            for file in files {
                let shown = file.strip_prefix(folder).unwrap_or(&file);
                let mut own = of_run(&file, shown, &name(&platform))?;
                for record in &mut own {
                    let stressor = record.parameters.get("stressor").map(ToString::to_string);
                    if let Some(classes) = stressor.and_then(|name| classes.get(&name)) {
                        record
                            .parameters
                            .insert("classes".to_owned(), classes.as_str().into());
                    }
                }
                records.extend(own);
            }
        }
    }
    match records.is_empty() {
        true => Err(Failure::usage(format!(
            "{}: no run in {RESULTS}",
            folder.display()
        ))),
        false => Ok(records),
    }
}

/// The records of one run, whose file is `shown` in the repository.
fn of_run(file: &Path, shown: &Path, platform: &str) -> Result<Vec<Record>, Failure> {
    let work = works().iter().find(|work| work.source.short == SHORT);
    let known = work.iter().flat_map(|work| &work.platforms);
    let cpu = known
        .clone()
        .find(|known| known.name == platform || known.also == platform);
    // All runs of one test make one record, so the run's number is no part of the place.
    let place = shown.with_extension("*");
    let origin = Origin {
        host: Some(platform.to_owned()),
        evidence: Evidence::Published {
            source: format!(
                "{}, {}",
                work.map_or(SHORT, |work| &work.source.work),
                place.display()
            ),
        },
    };
    let read = Program::StressNg.records(&read(file)?, &origin);
    let mut records =
        read.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    if let Some(cpu) = cpu {
        for record in &mut records {
            record.provenance.cpu_model.clone_from(&cpu.cpu);
        }
    }
    Ok(records)
}

/// The files of runs in a folder and those below, by name: `….yaml.1`.
fn runs(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable =
        |error: std::io::Error| Failure::usage(format!("{}: {error}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    paths.sort();
    for path in paths {
        let is_run = path
            .file_stem()
            .is_some_and(|stem| stem.to_string_lossy().ends_with(".yaml"));
        if is_run && path.is_file() {
            files.push(path);
        }
    }
    if depth > 0 {
        for inner in folders_of(folder)? {
            runs(&inner, depth - 1, files)?;
        }
    }
    Ok(())
}

fn name(folder: &Path) -> String {
    folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Each stressor's classes: a line has the stressor's name, tabs, and the classes between bars.
fn classes(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let named = lines.filter_map(|line| line.split_once('\t'));
    let named = named.filter(|(name, _)| *name != "STRESSOR");
    named
        .map(|(name, classes)| (name.to_owned(), classes.trim().to_owned()))
        .collect()
}
