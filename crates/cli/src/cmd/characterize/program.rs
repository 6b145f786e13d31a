//! Whole programs: a command line, for two lengths of its input.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dpb_core::measure::{Evidence, Record};
use dpb_core::random::SplitMix64;
use dpb_insight::source::{Program, Source};
use dpb_insight::trace::{Isa, Options};
use tempfile::TempDir;

use super::{Args, Counted, Uncounted, count_both, stop};
use crate::contained::{self, Bounds, How};
use crate::exit::Failure;

/// The words that stand for the file of either length in a command line, for a capture of about that length, and for the length itself.
const INPUT: &str = "{input}";
const CAPTURE: &str = "{capture}";
const WORK: &str = "{work}";
/// The name by which a command line means this program.
const OWN_NAME: &str = "dpb";
/// Bytes of a packet of a capture that is made.
const PACKET_BYTES: u64 = 512;
/// The most that it takes to make one.
const CAPTURE_TIME_MAX: Duration = Duration::from_secs(60);
const CAPTURE_STDOUT_BYTES_MAX: usize = 1 << 20;

/// A program's record, and what it counted.
type Watched = (Record, Result<Counted, Uncounted>);

/// The files of both lengths.
struct Lengths {
    /// Bytes.
    lengths: [u64; 2],
    files: [PathBuf; 2],
    _folder: TempDir,
}

/// Watches the program of a command line.
///
/// # Errors
/// If the command line is none, or an input cannot be made.
pub(super) fn count(args: &Args, command: &str, options: Options) -> Result<Watched, Failure> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let Some((name, _)) = words.split_first() else {
        return Err(Failure::usage("--program: no program"));
    };
    let record = Record::new("characterize", Evidence::of_this_cpu(), args.seed);
    let record = args.noted(record.with("program", command));
    let path = match find(name) {
        Ok(path) => path,
        Err(why) => return Ok((record, Err(Uncounted::Unseen(why)))),
    };
    let isa = match isa_of(&path) {
        Ok(isa) => isa,
        Err(why) => return Ok((record, Err(Uncounted::Unseen(why)))),
    };
    let has = |placeholder: &str| words.iter().any(|word| word.contains(placeholder));
    let lengths = Lengths::new(args, has(CAPTURE))?;
    let has_lengths = has(INPUT) || has(CAPTURE) || has(WORK);
    let record = record.with("lengths", if has_lengths { 2_u64 } else { 1 });
    let counted = args.first_that_sees(isa, |source| {
        let watch = |at: usize, options: Options| {
            let program = lengths.program(&path, &words[1..], isa, at);
            Ok((source.watch(&program, options, stop())?, None))
        };
        if source == Source::Step {
            let why = "a whole program is too long for single steps";
            return Err(Uncounted::Unseen(why.to_owned()));
        }
        if !has_lengths {
            let (whole, _) = watch(0, options)?;
            return Ok(Counted {
                tally: whole.tally,
                source,
                by: whole.by,
                items: None,
                check: None,
            });
        }
        let items = lengths.lengths[1].checked_sub(lengths.lengths[0]);
        count_both(source, options, items, |_| 0, watch)
    });
    Ok((record, counted))
}

/// The program's file.
fn find(name: &str) -> Result<PathBuf, String> {
    if name == OWN_NAME {
        let own = std::env::current_exe();
        return own.map_err(|error| format!("cannot find this program: {error}"));
    }
    if name.contains('/') {
        let path = PathBuf::from(name);
        return match path.is_file() {
            true => Ok(path),
            false => Err(format!("there is no {name}")),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = files.find(|file| file.is_file());
    found.ok_or_else(|| format!("{name} is not installed"))
}

/// The instruction set of an ELF file.
fn isa_of(path: &Path) -> Result<Isa, String> {
    use std::io::Read;
    let mut head = [0; 20];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    let path = path.display();
    read.map_err(|error| format!("{path}: {error}"))?;
    let is_elf64 = head.starts_with(b"\x7fELF\x02\x01");
    match u16::from_le_bytes([head[18], head[19]]) {
        62 if is_elf64 => Ok(Isa::X86),
        183 if is_elf64 => Ok(Isa::A64),
        _ => Err(format!(
            "{path} is no program of x86-64 or of 64-bit Arm; of a script name the interpreter"
        )),
    }
}

impl Lengths {
    /// The files that were given, or text or a capture whose shorter file is the longer one's beginning.
    fn new(args: &Args, of_packets: bool) -> Result<Self, Failure> {
        let unusable = |error: std::io::Error| Failure::usage(format!("--input: {error}"));
        let folder = TempDir::new().map_err(unusable)?;
        if let (Some(input), Some(longer)) = (&args.input, &args.longer) {
            let files = [input.clone(), longer.clone()];
            let mut lengths = [0; 2];
            for (length, file) in lengths.iter_mut().zip(&files) {
                *length = file.metadata().map_err(unusable)?.len();
            }
            if lengths[0] >= lengths[1] {
                return Err(Failure::usage("--longer: no longer than --input"));
            }
            return Ok(Self {
                lengths,
                files,
                _folder: folder,
            });
        }
        let mut lengths = [args.work, args.work.saturating_mul(2)];
        let files = ["1", "2"].map(|name| folder.path().join(name));
        for (length, file) in lengths.iter_mut().zip(&files) {
            if of_packets {
                capture(args.seed, length.div_ceil(PACKET_BYTES), file)?;
                *length = file.metadata().map_err(unusable)?.len();
                continue;
            }
            let text = text(args.seed, *length as usize);
            let written = File::create(file).and_then(|mut file| file.write_all(&text));
            written.map_err(unusable)?;
        }
        Ok(Self {
            lengths,
            files,
            _folder: folder,
        })
    }

    fn program(&self, path: &Path, words: &[&str], isa: Isa, at: usize) -> Program {
        let file = self.files[at].to_string_lossy();
        // As many characters for both lengths.
        let length = format!("{:020}", self.lengths[at]);
        let word = |word: &&str| {
            let word = word.replace(INPUT, &file).replace(CAPTURE, &file);
            word.replace(WORK, &length).into()
        };
        Program {
            path: path.into(),
            arguments: words.iter().map(word).collect(),
            variables: Vec::new(),
            isa,
            says_begin: false,
        }
    }
}

/// A capture of so many packets of applications, by `dpb net generate`: the first packets of more are the same.
fn capture(seed: u64, packets: u64, file: &Path) -> Result<(), Failure> {
    let broke = |why: String| Failure::check(format!("cannot make a capture: {why}"));
    let own = find(OWN_NAME).map_err(broke)?;
    let command = contained::tied(own.as_os_str());
    let mut command = command.map_err(|error| broke(error.to_string()))?;
    command.args(["net", "generate", "--quiet", "--flows=64"]);
    command.arg("--application=today");
    command.arg(format!("--port=capture:,{}", file.display()));
    command.arg(format!("--packets={packets}"));
    command.arg(format!("--size={PACKET_BYTES}"));
    command.arg(format!("--seed={seed}"));
    let bounds = Bounds {
        time: CAPTURE_TIME_MAX,
        stdout_bytes: CAPTURE_STDOUT_BYTES_MAX,
    };
    let ended = contained::run(command, b"", bounds).map_err(|error| broke(error.to_string()))?;
    match ended.how {
        How::Exited(status) if status.success() => Ok(()),
        How::Interrupted => Err(Failure::interrupted("interrupted")),
        how => Err(broke(format!("{how:?}: {}", ended.stderr.trim()))),
    }
}

/// Lines of words, few of which are frequent: made of 4096 words, of which each comes about as often as its number says (Zipf).
fn text(seed: u64, length: usize) -> Vec<u8> {
    const WORDS: f64 = 4096.0;
    let mut random = SplitMix64::new(seed);
    let mut text = Vec::with_capacity(length + 32);
    while text.len() < length {
        let number = WORDS.powf(random.unit()) as u64;
        // Three to eight letters that follow from the number.
        let mut letters = SplitMix64::new(number);
        let word = (0..3 + letters.below(6)).map(|_| b'a' + letters.below(26) as u8);
        text.extend(word.collect::<Vec<u8>>());
        text.push(if random.below(12) == 0 { b'\n' } else { b' ' });
    }
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_text_is_the_longer_ones_beginning() {
        let (short, long) = (text(1, 1000), text(1, 2000));
        assert_eq!((short.len(), long.len()), (1000, 2000));
        assert!(long.starts_with(&short));
        assert_ne!(text(2, 1000), short);
    }

    #[test]
    fn instruction_sets_are_told_apart() {
        let own = std::env::current_exe().expect("a path");
        assert_eq!(isa_of(&own), Ok(Isa::HOST));
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(isa_of(file.path()).is_err());
        std::fs::write(file.path(), "#!/bin/sh\nexit 0 # twenty bytes").expect("written");
        assert!(isa_of(file.path()).is_err());
        assert!(find("no-such-program-anywhere").is_err());
    }
}
