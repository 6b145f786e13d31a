//! Tells the crate which version of each library it was built with, for records to name: `DPB_VERSION_libdeflater` and the
//! like, from the lock file that cargo resolved.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let name = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    // The build's own lock file first: this crate may be built as a part of another workspace.
    let places = ["OUT_DIR", "CARGO_MANIFEST_DIR"].map(|place| {
        let place = std::env::var_os(place).unwrap_or_default();
        PathBuf::from(place)
    });
    let mut files = places
        .iter()
        .flat_map(|place| place.ancestors().map(|folder| folder.join("Cargo.lock")));
    let Some((file, versions)) =
        files.find_map(|file| Some((file.clone(), versions(&file, &name)?)))
    else {
        return;
    };
    println!("cargo::rerun-if-changed={}", file.display());
    for (library, version) in versions {
        println!("cargo::rustc-env=DPB_VERSION_{library}={version}");
    }
}

/// The dependencies of the package called `name`, each with its version, if this lock file knows it.
fn versions(file: &Path, name: &str) -> Option<Vec<(String, String)>> {
    let text = std::fs::read_to_string(file).ok()?;
    let packages: Vec<&str> = text.split("[[package]]").collect();
    let own = packages
        .iter()
        .find(|package| field(package, "name") == Some(name))?;
    let (_, list) = own.split_once("dependencies = [")?;
    let (list, _) = list.split_once(']')?;
    let version = |dependency: &str| {
        // `"name"`, or `"name version"` where several versions of it are about.
        let mut words = dependency.trim().trim_matches(['"', ',']).split(' ');
        let name = words.next()?;
        let mut named = packages.iter().filter(|p| field(p, "name") == Some(name));
        let version = words.next().or_else(|| field(named.next()?, "version"))?;
        Some((name.to_owned(), version.to_owned()))
    };
    Some(list.lines().filter_map(version).collect())
}

/// The value of a line `key = "value"`.
fn field<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    package.lines().find_map(|line| {
        let value = line.strip_prefix(key)?.strip_prefix(" = \"")?;
        value.strip_suffix('"')
    })
}
