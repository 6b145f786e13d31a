//! What is declared here, against headers: every prototype, layout and value, checked by a C compiler.
//!
//! The headers of the stand-in show that the check works. DOCA's own are checked where they are: in the folder that
//! `DPB_DOCA_INCLUDE` names, or in `/opt/mellanox/doca/include`.

use std::fmt::Write as _;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::kind::Kind;
use super::{Code, Core, Created, Data, StandIn, SymbolNames, jobs, tasks};

/// Names of a function, the newest first, and its type as Rust writes it.
type Declared = (&'static [&'static str], &'static str);

/// Headers, and what a compiler is told to find them.
struct Headers {
    flags: Vec<String>,
    includes: String,
    /// The declarations, preprocessed.
    text: String,
}

/// DOCA's own that declare what is used here.
const FILES: [&str; 16] = [
    "doca_version.h",
    "doca_error.h",
    "doca_types.h",
    "doca_dev.h",
    "doca_mmap.h",
    "doca_buf.h",
    "doca_buf_inventory.h",
    "doca_ctx.h",
    "doca_pe.h",
    "doca_dma.h",
    "doca_compress.h",
    "doca_sha.h",
    "doca_aes_gcm.h",
    "doca_erasure_coding.h",
    "doca_regex.h",
    "doca_regex_mempool.h",
];

impl Headers {
    fn of_stand_in(family: u32) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("native/doca");
        let flags = vec![
            format!("-I{}", folder.display()),
            format!("-DFAMILY={family}"),
        ];
        Self::preprocessed(flags, "#include \"stand_in.h\"\n".to_owned())
    }

    fn of_doca(folder: &Path) -> Option<Self> {
        let flags = vec![
            format!("-I{}", folder.display()),
            "-DDOCA_ALLOW_EXPERIMENTAL_API".to_owned(),
        ];
        let there = FILES.iter().filter(|file| folder.join(file).exists());
        let includes = there.map(|file| format!("#include <{file}>\n"));
        Self::preprocessed(flags, includes.collect())
    }

    fn preprocessed(flags: Vec<String>, includes: String) -> Option<Self> {
        let mut headers = Self {
            flags,
            includes,
            text: String::new(),
        };
        headers.text = headers.compile("-E", "").ok()?;
        Some(headers)
    }

    /// Compiles `checks` behind the headers: what comes of it, or what the compiler says.
    fn compile(&self, mode: &str, checks: &str) -> Result<String, String> {
        let thread = format!("{:?}", std::thread::current().id());
        let digits: String = thread.chars().filter(char::is_ascii_digit).collect();
        let file = std::env::temp_dir().join(format!(
            "dpb-doca-headers-{}-{digits}.c",
            std::process::id()
        ));
        let source = format!(
            "#include <stddef.h>\n#include <stdint.h>\n{}{checks}",
            self.includes
        );
        fs::write(&file, source).map_err(|error| error.to_string())?;
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let output = Command::new(compiler)
            .args([
                "-std=gnu11",
                "-Werror=incompatible-pointer-types",
                "-Wno-deprecated-declarations",
                mode,
            ])
            .args(&self.flags)
            .arg(&file)
            .output();
        fs::remove_file(&file).map_err(|error| error.to_string())?;
        let output = output.map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn has(&self, name: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        self.text.match_indices(name).any(|(at, _)| {
            !self.text[..at].ends_with(is_word)
                && !self.text[at + name.len()..].starts_with(is_word)
        })
    }

    fn is_of_jobs(&self) -> bool {
        self.has("doca_workq_create")
    }

    /// The checks in C, and functions that are not declared under any of their names.
    fn checks(&self) -> (String, Vec<String>) {
        let mut checks = String::new();
        let mut missing = Vec::new();
        for (of, table) in tables(self.is_of_jobs()) {
            for (names, signature) in table {
                let names: Vec<String> = names.iter().map(|name| of.symbol(name)).collect();
                match names.iter().find(|name| self.has(name)) {
                    // What is for several kinds of work is checked once.
                    Some(name) if checks.contains(&format!(" check_{name}(")) => {}
                    Some(name) => checks.push_str(&assignment(of, name, signature)),
                    None if missing.contains(&names[0]) => {}
                    None => missing.push(names[0].clone()),
                }
            }
        }
        for (expression, value) in values(self.is_of_jobs()) {
            // Some came with later releases.
            let may_lack =
                expression.starts_with("DOCA_ERROR") || expression.starts_with("DOCA_TASK");
            if !may_lack || self.has(expression) {
                _ = writeln!(
                    checks,
                    "_Static_assert(({expression}) == {value}, \"{expression}\");"
                );
            }
        }
        (checks, missing)
    }
}

/// Every table of a family, for every engine and task that it is for.
fn tables(is_of_jobs: bool) -> Vec<(SymbolNames, &'static [Declared])> {
    let any = SymbolNames::default();
    let mut tables: Vec<(SymbolNames, &'static [Declared])> =
        vec![(any, Core::DECLARED), (any, StandIn::DECLARED)];
    match is_of_jobs {
        true => tables.push((any, jobs::Jobs::DECLARED)),
        false => tables.extend([
            (any, tasks::Tasks::DECLARED),
            (any, tasks::Flush::DECLARED),
            (any, tasks::ThreadSafety::DECLARED),
            (any, tasks::Notification::DECLARED),
        ]),
    }
    for kind in Kind::ALL {
        let of = SymbolNames {
            engine: kind.engine(),
            task: kind.task(),
        };
        if is_of_jobs {
            let limits = match kind {
                Kind::Copy => jobs::MemcpyLimits::DECLARED,
                Kind::Deflate | Kind::Inflate => jobs::DeflateLimits::DECLARED,
                Kind::Sha1 | Kind::Sha256 | Kind::Sha512 => jobs::ShaLimits::DECLARED,
                Kind::Match => jobs::Searching::DECLARED,
                _ => continue,
            };
            tables.extend([
                (of, Created::DECLARED),
                (of, jobs::Create::DECLARED),
                (of, limits),
            ]);
            continue;
        }
        if kind == Kind::Match {
            continue;
        }
        let common = [
            Created::DECLARED,
            tasks::Create::DECLARED,
            tasks::AnyTask::DECLARED,
        ];
        let max = tasks::TasksMax::DECLARED;
        let configured = tasks::Configured::DECLARED;
        let form: &[&[Declared]] = match kind {
            Kind::Copy | Kind::Unlz4 => &[max, configured, tasks::Plain::DECLARED],
            Kind::Deflate | Kind::Inflate => {
                let checks = tasks::Checks::DECLARED;
                &[max, configured, tasks::Plain::DECLARED, checks]
            }
            Kind::Sha1 | Kind::Sha256 | Kind::Sha512 => &[max, tasks::Hash::DECLARED],
            // It does not say how many tasks there may be.
            Kind::ErasureEncode | Kind::ErasureRecover => &[tasks::Coding::DECLARED],
            _ => &[max, configured, tasks::Authenticated::DECLARED],
        };
        tables.extend(common.iter().chain(form).map(|table| (of, *table)));
    }
    tables
}

/// A pointer to `name`, of the type that is declared here.
fn assignment(of: SymbolNames, name: &str, signature: &str) -> String {
    let inside = signature
        .trim()
        .strip_prefix("fn")
        .expect("a function")
        .trim();
    let (arguments, result) = inside.split_once("->").unwrap_or((inside, "()"));
    let arguments = arguments
        .trim()
        .trim_start_matches('(')
        .trim_end_matches(')');
    let arguments: Vec<String> = arguments
        .split(',')
        .map(str::trim)
        .filter(|argument| !argument.is_empty())
        .map(|argument| c_type(of, argument))
        .collect();
    let arguments = if arguments.is_empty() {
        "void".to_owned()
    } else {
        arguments.join(", ")
    };
    let result = c_type(of, result.trim());
    format!(
        "static inline void check_{name}(void) {{ {result} (*f)({arguments}) = {name}; (void)f; }}\n"
    )
}

/// A type as C writes it. Enumerations are as wide as unsigned numbers, and compatible with them.
fn c_type(of: SymbolNames, rust: &str) -> String {
    if let Some(target) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(of, target));
    }
    if let Some(target) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(of, target));
    }
    let SymbolNames { engine, task } = of;
    match rust {
        "()" | "c_void" => "void".to_owned(),
        "c_char" => "char".to_owned(),
        "c_int" => "int".to_owned(),
        "u8" | "u16" | "u32" | "u64" => format!("uint{}_t", &rust[1..]),
        "usize" => "size_t".to_owned(),
        "Code" => "doca_error_t".to_owned(),
        "Data" => "union doca_data".to_owned(),
        "CtxState" | "Algorithm" | "KeyType" | "JobType" | "MatrixType" => "unsigned".to_owned(),
        "DevInfo" | "Dev" | "Mmap" | "Buf" | "Ctx" | "Pe" | "Task" | "Workq" | "Event" => {
            format!("struct doca_{}", rust.to_lowercase())
        }
        "Inventory" => "struct doca_buf_inventory".to_owned(),
        "Base" => "struct doca_job".to_owned(),
        "Key" => "struct doca_aes_gcm_key".to_owned(),
        "Matrix" => "struct doca_ec_matrix".to_owned(),
        "Pool" => "struct doca_regex_mempool".to_owned(),
        "Engine" => format!("struct doca_{engine}"),
        "EngineTask" => format!("struct doca_{engine}_task_{task}"),
        "Callback" => format!(
            "void (*)(struct doca_{engine}_task_{task} *, union doca_data, union doca_data)"
        ),
        other => panic!("what is {other} in C?"),
    }
}

/// Constants and layouts, as C says them, and as they are here.
fn values(is_of_jobs: bool) -> Vec<(&'static str, i64)> {
    let mut values = vec![
        ("DOCA_SUCCESS", i64::from(Code::SUCCESS.0)),
        ("DOCA_ERROR_AGAIN", i64::from(Code::AGAIN.0)),
        ("DOCA_ERROR_INVALID_VALUE", i64::from(Code::INVALID_VALUE.0)),
        ("DOCA_ERROR_NO_MEMORY", i64::from(Code::NO_MEMORY.0)),
        ("DOCA_ERROR_SHUTDOWN", i64::from(Code::SHUTDOWN.0)),
        ("DOCA_ERROR_IO_FAILED", i64::from(Code::IO_FAILED.0)),
        ("DOCA_ERROR_BAD_STATE", i64::from(Code::BAD_STATE.0)),
        (
            "DOCA_ERROR_OPERATING_SYSTEM",
            i64::from(Code::OPERATING_SYSTEM.0),
        ),
        ("DOCA_ERROR_DRIVER", i64::from(Code::DRIVER.0)),
        ("DOCA_ERROR_FULL", i64::from(Code::FULL.0)),
        ("DOCA_ERROR_IN_PROGRESS", i64::from(Code::IN_PROGRESS.0)),
        ("DOCA_ERROR_TOO_BIG", i64::from(Code::TOO_BIG.0)),
        (
            "DOCA_DEVINFO_IBDEV_NAME_SIZE",
            super::IBDEV_NAME_BYTES as i64,
        ),
        (
            "DOCA_DEVINFO_PCI_ADDR_SIZE",
            super::PCI_ADDRESS_BYTES as i64,
        ),
        ("sizeof(doca_error_t)", size_of::<Code>() as i64),
        ("sizeof(union doca_data)", size_of::<Data>() as i64),
    ];
    if !is_of_jobs {
        values.extend([
            (
                "DOCA_ACCESS_FLAG_LOCAL_READ_WRITE",
                i64::from(super::ACCESS_LOCAL_READ_WRITE),
            ),
            (
                "DOCA_TASK_SUBMIT_FLAG_NONE",
                i64::from(tasks::SUBMIT_UNFLUSHED),
            ),
            ("DOCA_CTX_STATE_IDLE", i64::from(tasks::IDLE)),
            ("DOCA_CTX_STATE_RUNNING", i64::from(tasks::RUNNING)),
            ("DOCA_SHA_ALGORITHM_SHA1", i64::from(tasks::SHA1)),
            ("DOCA_SHA_ALGORITHM_SHA256", i64::from(tasks::SHA256)),
            ("DOCA_SHA_ALGORITHM_SHA512", i64::from(tasks::SHA512)),
            ("DOCA_AES_GCM_KEY_128", i64::from(tasks::KEY_128)),
            ("DOCA_AES_GCM_KEY_256", i64::from(tasks::KEY_256)),
            ("DOCA_EC_MATRIX_TYPE_CAUCHY", i64::from(tasks::CAUCHY)),
        ]);
        return values;
    }
    values.extend([
        (
            "DOCA_ACCESS_LOCAL_READ_WRITE",
            i64::from(super::ACCESS_LOCAL_READ_WRITE),
        ),
        ("DOCA_DMA_JOB_MEMCPY", i64::from(jobs::DMA_MEMCPY)),
        ("DOCA_SHA_JOB_SHA1", i64::from(jobs::SHA1)),
        ("DOCA_SHA_JOB_SHA256", i64::from(jobs::SHA256)),
        ("DOCA_SHA_JOB_SHA512", i64::from(jobs::SHA512)),
        (
            "DOCA_COMPRESS_DEFLATE_JOB",
            i64::from(jobs::COMPRESS_DEFLATE),
        ),
        (
            "DOCA_DECOMPRESS_DEFLATE_JOB",
            i64::from(jobs::DECOMPRESS_DEFLATE),
        ),
        ("sizeof(struct doca_job)", size_of::<jobs::Base>() as i64),
        (
            "offsetof(struct doca_job, type)",
            offset_of!(jobs::Base, kind) as i64,
        ),
        (
            "offsetof(struct doca_job, flags)",
            offset_of!(jobs::Base, flags) as i64,
        ),
        (
            "offsetof(struct doca_job, ctx)",
            offset_of!(jobs::Base, ctx) as i64,
        ),
        (
            "offsetof(struct doca_job, user_data)",
            offset_of!(jobs::Base, user_data) as i64,
        ),
        ("sizeof(struct doca_event)", size_of::<jobs::Event>() as i64),
        (
            "offsetof(struct doca_event, type)",
            offset_of!(jobs::Event, kind) as i64,
        ),
        (
            "offsetof(struct doca_event, user_data)",
            offset_of!(jobs::Event, user_data) as i64,
        ),
        (
            "offsetof(struct doca_event, result)",
            offset_of!(jobs::Event, result) as i64,
        ),
        (
            "sizeof(struct doca_dma_job_memcpy)",
            size_of::<jobs::Memcpy>() as i64,
        ),
        (
            "offsetof(struct doca_dma_job_memcpy, dst_buff)",
            offset_of!(jobs::Memcpy, dst) as i64,
        ),
        (
            "offsetof(struct doca_dma_job_memcpy, src_buff)",
            offset_of!(jobs::Memcpy, src) as i64,
        ),
        (
            "sizeof(struct doca_compress_deflate_job)",
            size_of::<jobs::Deflate>() as i64,
        ),
        (
            "offsetof(struct doca_compress_deflate_job, dst_buff)",
            offset_of!(jobs::Deflate, dst) as i64,
        ),
        (
            "offsetof(struct doca_compress_deflate_job, src_buff)",
            offset_of!(jobs::Deflate, src) as i64,
        ),
        (
            "offsetof(struct doca_compress_deflate_job, output_chksum)",
            offset_of!(jobs::Deflate, checksums) as i64,
        ),
        ("sizeof(struct doca_sha_job)", size_of::<jobs::Sha>() as i64),
        (
            "offsetof(struct doca_sha_job, req_buf)",
            offset_of!(jobs::Sha, src) as i64,
        ),
        (
            "offsetof(struct doca_sha_job, resp_buf)",
            offset_of!(jobs::Sha, dst) as i64,
        ),
        (
            "offsetof(struct doca_sha_job, flags)",
            offset_of!(jobs::Sha, flags) as i64,
        ),
    ]);
    values.extend(values_of_searches());
    values
}

/// The values of searches, up to 2.2.
fn values_of_searches() -> [(&'static str, i64); 20] {
    use jobs::{Match, Report, Search};
    [
        ("DOCA_REGEX_JOB_SEARCH", i64::from(jobs::REGEX_SEARCH)),
        ("DOCA_REGEX_STATUS_MAX_MATCH", jobs::STATUS_MAX_MATCH as i64),
        (
            "DOCA_REGEX_STATUS_CQE_FAILURE_INVALID_JOB",
            jobs::STATUS_INVALID_JOB as i64,
        ),
        (
            "sizeof(struct doca_regex_job_search)",
            size_of::<Search>() as i64,
        ),
        (
            "offsetof(struct doca_regex_job_search, rule_group_ids)",
            offset_of!(Search, groups) as i64,
        ),
        (
            "offsetof(struct doca_regex_job_search, buffer)",
            offset_of!(Search, src) as i64,
        ),
        (
            "offsetof(struct doca_regex_job_search, result)",
            offset_of!(Search, report) as i64,
        ),
        (
            "offsetof(struct doca_regex_job_search, allow_batching)",
            offset_of!(Search, may_wait) as i64,
        ),
        (
            "sizeof(((struct doca_regex_job_search *)0)->rule_group_ids)",
            size_of::<[u16; 4]>() as i64,
        ),
        (
            "sizeof(struct doca_regex_search_result)",
            size_of::<Report>() as i64,
        ),
        (
            "offsetof(struct doca_regex_search_result, status_flags)",
            offset_of!(Report, status) as i64,
        ),
        (
            "offsetof(struct doca_regex_search_result, detected_matches)",
            offset_of!(Report, detected) as i64,
        ),
        (
            "offsetof(struct doca_regex_search_result, num_matches)",
            offset_of!(Report, count) as i64,
        ),
        (
            "offsetof(struct doca_regex_search_result, matches)",
            offset_of!(Report, matches) as i64,
        ),
        (
            "offsetof(struct doca_regex_search_result, matches_mempool)",
            offset_of!(Report, pool) as i64,
        ),
        ("sizeof(struct doca_regex_match)", size_of::<Match>() as i64),
        (
            "offsetof(struct doca_regex_match, next)",
            offset_of!(Match, next) as i64,
        ),
        (
            "offsetof(struct doca_regex_match, match_start)",
            offset_of!(Match, start) as i64,
        ),
        (
            "offsetof(struct doca_regex_match, rule_id)",
            offset_of!(Match, rule) as i64,
        ),
        (
            "offsetof(struct doca_regex_match, length)",
            offset_of!(Match, len) as i64,
        ),
    ]
}

#[test]
fn declarations_are_those_of_the_stand_ins_headers() {
    for (family, missing_there) in [(22, 0), (25, 2 + 1 + 1 + 7), (210, 0)] {
        let Some(headers) = Headers::of_stand_in(family) else {
            println!("skipped: no C compiler; install gcc or clang");
            return;
        };
        let (checks, missing) = headers.checks();
        headers
            .compile("-fsyntax-only", &checks)
            .unwrap_or_else(|said| panic!("{family}: {said}"));
        // Flushing, thread safety, SHA's number of tasks and LZ4 blocks came later.
        assert_eq!(missing.len(), missing_there, "{family}: {missing:?}");
    }
}

#[test]
fn a_declaration_that_is_wrong_is_found() {
    let Some(headers) = Headers::of_stand_in(210) else {
        println!("skipped: no C compiler; install gcc or clang");
        return;
    };
    let (checks, _) = headers.checks();
    for (right, wrong) in [
        ("size_t, void *, size_t", "size_t, void *, uint32_t"),
        ("uint32_t, union doca_data", "uint64_t, union doca_data"),
        ("(DOCA_ERROR_AGAIN) == 5", "(DOCA_ERROR_AGAIN) == 6"),
    ] {
        assert!(checks.contains(right), "{right}");
        let said = headers.compile("-fsyntax-only", &checks.replace(right, wrong));
        assert!(said.is_err(), "{wrong}");
    }
}

#[test]
fn declarations_are_those_of_docas_headers() {
    let named = std::env::var_os("DPB_DOCA_INCLUDE").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| PathBuf::from("/opt/mellanox/doca/include"));
    if !folder.join("doca_error.h").exists() {
        println!(
            "skipped: no DOCA headers in {}; install NVIDIA's doca-sdk packages, or name their folder in DPB_DOCA_INCLUDE",
            folder.display()
        );
        return;
    }
    let headers = Headers::of_doca(&folder).expect("they compile");
    let (checks, missing) = headers.checks();
    println!("not declared there: {}", missing.join(", "));
    headers
        .compile("-fsyntax-only", &checks)
        .unwrap_or_else(|said| panic!("{said}"));
    // What every release has.
    assert!(!missing.iter().any(|name| {
        Core::DECLARED
            .iter()
            .any(|(names, _)| names.contains(&name.as_str()))
    }));
}
