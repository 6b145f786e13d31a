//! What the pushdown's end-to-end tests share: data made once, real agents, real runs.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]

pub mod boxes;
pub mod schema;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use dpb_core::measure::Record;

/// The program under test.
pub const DPB: &str = env!("CARGO_BIN_EXE_dpb");

/// Where the tests' data is; kept between runs.
pub fn data_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pushdown-data")
}

/// `dpb` over the tests' data, started from a folder that is nobody's.
pub fn dpb(args: &[&str]) -> Command {
    as_usual(Command::new(DPB), args)
}

/// The same, and permissions of files bind it, also if root runs it.
pub fn bound_by_permissions(args: &[&str]) -> Command {
    if !rustix::process::geteuid().is_root() {
        return dpb(args);
    }
    let mut command = Command::new("setpriv");
    command
        .arg("--bounding-set=-dac_override,-dac_read_search")
        .arg(DPB);
    as_usual(command, args)
}

fn as_usual(mut command: Command, args: &[&str]) -> Command {
    command
        .args(args)
        .env("DPB_DATA_DIR", data_dir())
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn finish(args: &[&str]) -> Output {
    dpb(args).output().expect("dpb starts")
}

/// `dpb pushdown` at scale factor 0.01, one thread, one run, records on stdout alone, and `more` flags.
pub fn sweep_command(more: &[&str]) -> Command {
    let size = ["--sf", "0.01", "--threads", "1", "--repeat", "1"];
    let to = ["--format", "json", "--out", "/dev/null"];
    dpb(&[&["pushdown"][..], &size, &to, more].concat())
}

/// Runs it to its end.
pub fn sweep(more: &[&str]) -> Output {
    sweep_command(more).output().expect("dpb starts")
}

/// Makes lineitem at this scale factor, unless it is there.
pub fn make_data(sf: &str) {
    let made = finish(&[
        "data", "--sf", sf, "--tables", "lineitem", "--format", "json",
    ]);
    assert!(made.status.success(), "{}", text(&made.stderr));
}

/// True, and a line says so, if programs run under qemu-user, which has no `what`.
pub fn cannot_be_emulated(what: &str) -> bool {
    let is_emulated = std::env::var_os("DPB_QEMU").is_some();
    if is_emulated {
        println!("skipped: qemu-user has no {what}");
    }
    is_emulated
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The records on a run's stdout, each of which matches the schema that `dpb schema record` gives.
pub fn records(output: &Output) -> Vec<Record> {
    static SCHEMA: OnceLock<serde_json::Value> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| {
        let told = finish(&["schema", "record"]);
        serde_json::from_slice(&told.stdout).expect("JSON")
    });
    let record = |line: &str| {
        let value = serde_json::from_str(line).expect("JSON");
        assert_eq!(schema::misfit(&value, schema, schema), None);
        serde_json::from_value(value).expect("a record")
    };
    text(&output.stdout).lines().map(record).collect()
}

/// The cells of CSV text, by RFC 4180.
pub fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => cell.extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            character => cell.push(character),
        }
    }
    assert!(
        !quoted && cell.is_empty() && row.is_empty(),
        "a whole last line"
    );
    rows
}

/// An agent of a test; killed with it.
pub struct Agent {
    pub child: Child,
    pub address: String,
}

impl Agent {
    pub fn start(args: &[&str]) -> Self {
        Self::start_with(args, "")
    }

    /// The same with a first line on its standard input, which stays open.
    pub fn start_with(args: &[&str], line: &str) -> Self {
        Self::start_as(args, line, Stdio::inherit())
    }

    /// The same with a file for what it says on stderr.
    pub fn start_saying(args: &[&str], said: File) -> Self {
        Self::start_as(args, "", said.into())
    }

    fn start_as(args: &[&str], line: &str, stderr: Stdio) -> Self {
        let mut child = dpb(&["--format", "json", "serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("dpb starts");
        let mut stdin = child.stdin.as_ref().expect("was piped");
        writeln!(stdin, "{line}").expect("it reads");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("was piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let ready: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let address = ready["listening"].as_str().expect("an address").to_owned();
        Self { child, address }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a socket");
        stream
    }

    pub fn threads(&self) -> usize {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        tasks.map_or(0, Iterator::count)
    }

    /// How long the threads that live now have waited for a core; `None` where the kernel does not say.
    pub fn core_wait_s(&self) -> Option<f64> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).ok()?;
        let wait_ns = |task: std::fs::DirEntry| {
            let schedstat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            schedstat.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        let waits: Vec<u64> = tasks.flatten().filter_map(wait_ns).collect();
        (!waits.is_empty()).then(|| waits.iter().sum::<u64>() as f64 / 1e9)
    }

    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .expect("the agent lives");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1));
        kib.and_then(|kib| kib.parse::<u64>().ok()).expect("VmRSS") * 1024
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|&child| parent_and_state(child).is_some_and(|(parent, _)| parent == pid))
        .collect()
}

/// Whether a process runs; one that has ended and waits to be reaped does not.
pub fn runs(pid: u32) -> bool {
    parent_and_state(pid).is_some_and(|(_, state)| state != "Z" && state != "X")
}

fn parent_and_state(pid: u32) -> Option<(u32, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything; what follows its last bracket is plain.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.to_owned();
    Some((fields.next()?.parse().ok()?, state))
}

/// Waits until `what` holds.
pub fn wait_until(patience: Duration, what: impl Fn() -> bool) -> bool {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    what()
}

/// Whether the folder holds a file that something was being written to.
pub fn has_half_files(dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.contains(".partial") || name.contains(".tmp") || has_half_files(&entry.path())
    })
}

/// Starts a server, and reads the address that it listens at from its first line.
pub fn listening(command: &mut Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("dpb starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("was piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let ready: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let address = ready["listening"].as_str().expect("an address").to_owned();
    (child, address)
}
