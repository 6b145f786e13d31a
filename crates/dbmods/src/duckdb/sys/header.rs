//! What is declared here, against `duckdb.h`: a C compiler is asked to agree with every prototype, size, place and value.
//!
//! The header is the one in `DUCKDB_LIB_DIR`, or of the sources that the crate `libduckdb-sys` has.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::mem::{align_of, offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DECLARED, Huge, ResultRaw, Text, type_id};

/// DuckDB's header of this name, or why there is none.
pub(in crate::duckdb) fn header(name: &str) -> Result<String, String> {
    let beside = env::var_os("DUCKDB_LIB_DIR").map(|dir| Path::new(&dir).join(name));
    if let Some(text) = beside.and_then(|path| fs::read_to_string(path).ok()) {
        return Ok(text);
    }
    let home = |name, below| Some(PathBuf::from(env::var_os(name)?).join(below));
    let cargo = home("CARGO_HOME", "").or_else(|| home("HOME", ".cargo"));
    let registries = cargo.ok_or("no HOME")?.join("registry/src");
    let crates = fs::read_dir(registries).into_iter().flatten().flatten();
    let crates = crates.flat_map(|registry| fs::read_dir(registry.path()).into_iter().flatten());
    let sources = crates
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("libduckdb-sys-")
        })
        .map(|entry| entry.path().join("duckdb.tar.gz"))
        .max()
        .ok_or(
            "no header in DUCKDB_LIB_DIR, nor the crate libduckdb-sys, which `cargo fetch` brings",
        )?;
    let mut tar = Command::new("tar");
    tar.arg("xzOf")
        .arg(sources)
        .arg(format!("duckdb/src/include/{name}"));
    let output = tar.output().map_err(|error| format!("tar: {error}"))?;
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// The objection of C's compiler to `claims` behind the header; `None` if it agrees.
fn objection(header: &str, claims: &str) -> Result<Option<String>, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = dir.path().join("claims.c");
    fs::write(&file, format!("{header}\n{claims}")).map_err(|error| error.to_string())?;
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(compiler)
        .args([
            "-std=gnu11",
            "-fsyntax-only",
            "-Werror=incompatible-pointer-types",
        ])
        .arg(&file)
        .output()
        .map_err(|error| format!("no C compiler: {error}"))?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((!output.status.success()).then(said))
}

/// A pointer to each function, of the type that is declared here. `own` has the types of a header, as C writes them.
fn prototypes(declared: &[(&str, &[&str], &str)], own: fn(&str) -> Option<&'static str>) -> String {
    let mut claims = String::new();
    for (name, arguments, result) in declared {
        let arguments: Vec<String> = arguments.iter().map(|rust| c_type(rust, own)).collect();
        let arguments = match arguments.is_empty() {
            true => "void".to_owned(),
            false => arguments.join(", "),
        };
        _ = writeln!(
            claims,
            "{} (*check_{name})({arguments}) = {name};",
            c_type(result, own)
        );
    }
    claims
}

/// A type as C writes it: pointers and what every header has, and what `own` says of the others.
fn c_type(rust: &str, own: fn(&str) -> Option<&'static str>) -> String {
    if let Some(target) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(target, own));
    }
    if let Some(target) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(target, own));
    }
    let c = match rust {
        "" | "c_void" => "void",
        "c_char" => "char",
        "bool" => "bool",
        "f64" => "double",
        "i32" => "int32_t",
        "u8" => "uint8_t",
        // Enumerations are as wide as unsigned numbers, and compatible with them.
        "u32" => "unsigned",
        "u64" => "uint64_t",
        "Index" => "idx_t",
        other => own(other).unwrap_or_else(|| panic!("what is {other} in C?")),
    };
    c.to_owned()
}

/// A type of `duckdb.h`, as C writes it.
fn own_type(rust: &str) -> Option<&'static str> {
    Some(match rust {
        "State" => "duckdb_state",
        "ResultRaw" => "duckdb_result",
        "DatabaseHandle" => "duckdb_database",
        "ConfigHandle" => "duckdb_config",
        "ConnectionHandle" => "duckdb_connection",
        "StatementHandle" => "duckdb_prepared_statement",
        "PendingHandle" => "duckdb_pending_result",
        "ChunkHandle" => "duckdb_data_chunk",
        "VectorHandle" => "duckdb_vector",
        "TypeHandle" => "duckdb_logical_type",
        "TableFunctionHandle" => "duckdb_table_function",
        "BindHandle" => "duckdb_bind_info",
        "InitHandle" => "duckdb_init_info",
        "CallHandle" => "duckdb_function_info",
        "Option<Delete>" => "duckdb_delete_callback_t",
        "Bind" => "duckdb_table_function_bind_t",
        "Init" => "duckdb_table_function_init_t",
        "Call" => "duckdb_table_function_t",
        _ => return None,
    })
}

/// Claims that what C says is what it is here.
pub(in crate::duckdb) fn equalities(claims: &[(&str, usize)]) -> String {
    let line = |(c, rust): &(&str, usize)| format!("_Static_assert(({c}) == {rust}, \"{c}\");\n");
    claims.iter().map(line).collect()
}

/// Layouts and constants, as C says them, and as they are here.
fn values() -> String {
    let claims = [
        ("sizeof(duckdb_state)", size_of::<super::State>()),
        ("DuckDBSuccess", 0),
        ("sizeof(idx_t)", size_of::<super::Index>()),
        ("sizeof(duckdb_result)", size_of::<ResultRaw>()),
        (
            "offsetof(duckdb_result, internal_data)",
            offset_of!(ResultRaw, internal),
        ),
        ("sizeof(duckdb_string_t)", size_of::<Text>()),
        ("_Alignof(duckdb_string_t)", align_of::<Text>()),
        (
            "offsetof(duckdb_string_t, value.inlined.length)",
            offset_of!(Text, len),
        ),
        (
            "offsetof(duckdb_string_t, value.inlined.inlined)",
            offset_of!(Text, inlined),
        ),
        (
            "offsetof(duckdb_string_t, value.pointer.ptr)",
            offset_of!(Text, inlined) + 4,
        ),
        ("sizeof(duckdb_hugeint)", size_of::<Huge>()),
        ("offsetof(duckdb_hugeint, lower)", offset_of!(Huge, lower)),
        ("offsetof(duckdb_hugeint, upper)", offset_of!(Huge, upper)),
        ("DUCKDB_TYPE_TINYINT", type_id::TINYINT as usize),
        ("DUCKDB_TYPE_SMALLINT", type_id::SMALLINT as usize),
        ("DUCKDB_TYPE_INTEGER", type_id::INTEGER as usize),
        ("DUCKDB_TYPE_BIGINT", type_id::BIGINT as usize),
        ("DUCKDB_TYPE_DOUBLE", type_id::DOUBLE as usize),
        ("DUCKDB_TYPE_DATE", type_id::DATE as usize),
        ("DUCKDB_TYPE_HUGEINT", type_id::HUGEINT as usize),
        ("DUCKDB_TYPE_VARCHAR", type_id::VARCHAR as usize),
        ("DUCKDB_TYPE_DECIMAL", type_id::DECIMAL as usize),
    ];
    equalities(&claims)
}

/// Checks that C's compiler agrees with `declared` and `values` behind a header, and objects to each of `wrong`.
pub(in crate::duckdb) fn check(
    header: &str,
    declared: &[(&str, &[&str], &str)],
    values: &str,
    own: fn(&str) -> Option<&'static str>,
    wrong: &[(&str, &[&str], &str)],
) {
    match objection(header, &(prototypes(declared, own) + values)) {
        Ok(objection) => assert_eq!(objection, None),
        Err(why) => return println!("skipped: {why}"),
    }
    for &wrong in wrong {
        let objection = objection(header, &prototypes(&[wrong], own));
        assert!(objection.unwrap().is_some(), "{wrong:?}");
    }
}

#[test]
fn declarations_agree_with_the_header_and_wrong_ones_do_not() {
    let header = match header("duckdb.h") {
        Ok(header) => header,
        Err(why) => return println!("skipped: {why}"),
    };
    let wrong: [(&str, &[&str], &str); 4] = [
        ("duckdb_disconnect", &["*mut DatabaseHandle"], ""),
        ("duckdb_vector_size", &[], "u32"),
        ("duckdb_create_decimal_type", &["u8"], "TypeHandle"),
        ("duckdb_nothing", &[], ""),
    ];
    check(&header, DECLARED, &values(), own_type, &wrong);
}
