//! Against a real sshd on the loopback interface, where there is one; shell scripts stand in for benches.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use super::*;

/// A server that this user starts, with keys of its own, and the command that reaches it.
struct Server {
    folder: tempfile::TempDir,
    process: Child,
    command: String,
}

impl Server {
    /// `None`, with a line that says why, where none can be started.
    fn start() -> Option<Self> {
        let sshd = ["/usr/sbin/sshd", "/usr/bin/sshd"]
            .into_iter()
            .find(|path| Path::new(path).is_file());
        let Some(sshd) = sshd.filter(|_| shell::find("ssh-keygen").is_some()) else {
            println!("skipped: no sshd here; apt-get install openssh-server");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(at(key));
            shell::output(&mut keygen).expect("a key");
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.expect("a free port").port();
        let options = [
            format!("Port={port}"),
            "ListenAddress=127.0.0.1".to_owned(),
            format!("HostKey={}", at("host").display()),
            format!("AuthorizedKeysFile={}", at("user.pub").display()),
            format!("PidFile={}", at("pid").display()),
            "StrictModes=no".to_owned(),
            "UsePAM=no".to_owned(),
        ];
        // Root's sshd wants this folder, which the system's service makes.
        let _ = fs::create_dir_all("/run/sshd");
        let mut server = Command::new(sshd);
        server.args(["-D", "-e", "-f", "/dev/null"]);
        for option in &options {
            server.args(["-o", option]);
        }
        let log = fs::File::create(at("log")).expect("a log");
        let process = server.stderr(log).spawn().expect("sshd starts");
        let command = format!(
            "ssh -F /dev/null -p {port} -i {} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
            at("user").display()
        );
        let server = Self {
            folder,
            process,
            command,
        };
        server.answers(port).then_some(server)
    }

    fn answers(&self, port: u16) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > until {
                println!("skipped: sshd does not listen: {}", self.log());
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let login = Ssh {
            ssh: Some("127.0.0.1".to_owned()),
            ssh_command: self.command.clone(),
        };
        if let Err(why) = login.machine() {
            println!("skipped: sshd lets nobody in: {why:#}; {}", self.log());
            return false;
        }
        true
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn ssh(&self) -> Ssh {
        Ssh {
            ssh: Some("127.0.0.1".to_owned()),
            ssh_command: self.command.clone(),
        }
    }

    fn script(&self, name: &str, text: &str) -> Program {
        let path: PathBuf = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        Program {
            name: name.to_owned(),
            path,
            source: "/src".into(),
            folder: "/".into(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn programs_run_there_and_their_records_come_back() {
    let Some(server) = Server::start() else {
        return;
    };
    let ssh = server.ssh();
    let machine = ssh.machine().expect("answers").expect("is named");
    assert_eq!(machine.architecture, std::env::consts::ARCH);
    let where_it_was = server.folder.path().join("where");
    let note = format!("pwd > {}", where_it_was.display());
    let peers = format!("{note}; echo \"$@\" > records/peers-x.jsonl");
    let seam = "mkdir -p $CRITERION_HOME; echo \"$1\" > $CRITERION_HOME/estimates.json";
    let programs = [server.script("peers", &peers), server.script("seam", seam)];
    let records = server.folder.path().join("back");
    let how = How::Timed { quick: true };
    let rest = ["it's one".to_owned()];
    machine
        .run(&programs, &how, &rest, &records)
        .expect("both run");
    let back = |name: &str| fs::read_to_string(records.join(name)).expect("came back");
    assert_eq!(
        back("peers-x.jsonl"),
        "--bench --quick --record records it's one\n"
    );
    assert_eq!(back("criterion/estimates.json"), "--bench\n");
    let folder = fs::read_to_string(where_it_was).expect("it ran");
    assert!(!Path::new(folder.trim()).exists(), "left behind: {folder}");
}

#[test]
fn one_that_fails_is_named_and_the_others_records_come_back_all_the_same() {
    let Some(server) = Server::start() else {
        return;
    };
    let ssh = server.ssh();
    let machine = ssh.machine().expect("answers").expect("is named");
    let programs = [
        server.script("bad", "exit 3"),
        server.script("good", "echo good > records/good"),
    ];
    let records = server.folder.path().join("back");
    let how = How::Timed { quick: false };
    let failed = machine.run(&programs, &how, &[], &records);
    let said = format!("{:#}", failed.expect_err("one failed"));
    assert!(
        said.starts_with("bad: ") && !said.contains("good:"),
        "{said}"
    );
    let good = fs::read_to_string(records.join("good")).expect("came back");
    assert_eq!(good, "good\n");
}

#[test]
fn a_machine_that_does_not_answer_is_an_error_that_says_so() {
    let ssh = Ssh {
        ssh: Some("nobody@there.invalid".to_owned()),
        ssh_command: "false".to_owned(),
    };
    let said = format!("{:#}", ssh.machine().err().expect("no answer"));
    assert!(said.contains("nobody@there.invalid"), "{said}");
}
