//! A crate outside of the workspace depends on these crates as README.md says, and runs the program of the front page.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What stands in `page` behind the first line `open`, up to the end of the code there.
fn code<'a>(page: &'a str, open: &str, close: &str) -> &'a str {
    let (_, behind) = page.split_once(open).expect("it begins");
    behind.split_once(close).expect("it ends").0
}

#[test]
fn a_crate_of_its_own_runs_the_program_of_the_front_page() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let repository = repository.canonicalize().expect("the repository");
    let read = |file: &str| fs::read_to_string(repository.join(file)).expect("a file of ours");

    let readme = read("README.md");
    let dependencies = code(&readme, "```toml\n", "```");
    let repository_name = repository.to_str().expect("a path in UTF-8");
    let dependencies = dependencies.replace("../dpb", repository_name);
    let page = read("crates/operators/src/lib.rs");
    let program: Vec<&str> = code(&page, "//! ```\n", "//! ```")
        .lines()
        .map(|line| line.trim_start_matches("//!").trim_start())
        .map(|line| line.strip_prefix("# ").unwrap_or(line))
        .collect();
    let program = program.join("\n");

    let directory = tempfile::tempdir().expect("a directory");
    let write = |file: &str, text: &str| {
        fs::write(directory.path().join(file), text).expect("written");
    };
    fs::create_dir(directory.path().join("src")).expect("created");
    let package = "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    write("Cargo.toml", &format!("{package}\n{dependencies}"));
    // The versions of other crates are known from here, so that no registry is asked.
    write("Cargo.lock", &read("Cargo.lock"));
    let main = "fn main() -> Result<(), Box<dyn std::error::Error>> {";
    let said = "println!(\"{:?}\", outputs.get(0)?);";
    let (body, end) = program.rsplit_once('\n').expect("some lines");
    write(
        "src/main.rs",
        &format!("{main}\n{body}\n{said}\n{end}\n}}\n"),
    );

    let output = Command::new(env!("CARGO"))
        .args(["run", "--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", directory.path().join("target"))
        .current_dir(directory.path())
        .output()
        .expect("cargo starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    // The check value of CRC-32C that catalogues give for 123456789, little endian.
    assert_eq!(output.stdout, b"[131, 146, 6, 227]\n");
    let lock = fs::read_to_string(directory.path().join("Cargo.lock")).expect("kept");
    let packages = lock.matches("[[package]]").count();
    assert_eq!(packages, 3, "no crate but the two and the program: {lock}");
}
