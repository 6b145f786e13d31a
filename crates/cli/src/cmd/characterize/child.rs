//! The program that is watched: this one, started to carry out a number of jobs of an operator and nothing else.
//!
//! It is asked for by the first word of its command line and reads the rest itself. The whole command line of `dpb` takes millions of
//! instructions to set up, all of which would be emulated. It ends as soon as the last job is done.

use std::collections::VecDeque;
use std::io::Write;
use std::num::NonZeroU32;
use std::process::ExitCode;

use dpb_core::{
    Backend, Buf, Completion, Families, Input, Job, JobError, OutputShape, Queue, Right,
    SetupError, Workload,
};
use dpb_operators::registry::Operators;
use serde::{Deserialize, Serialize};

use crate::output;

/// The word that asks for it.
pub(super) const WORD: &str = "characterized";

/// The jobs to be carried out.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Jobs {
    pub(super) operator: String,
    pub(super) parameters: String,
    pub(super) backend: String,
    pub(super) size: u64,
    pub(super) batch: u64,
    /// Different inputs, each of which is carried out once before the jobs that are counted, and checked.
    pub(super) inputs: u64,
    /// A decimal number of a fixed width: memory is to be the same for both lengths.
    pub(super) jobs: String,
    pub(super) seed: u64,
    /// True if it says when the jobs that are counted begin, by a signal to itself.
    pub(super) says_begin: bool,
}

/// The word that it says before the jobs that are counted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// It can carry them out.
    Ready {
        /// The path and the code behind it, in the backend's words.
        code: Option<String>,
        /// Whoever says what is right.
        against: String,
        /// Outputs that were compared.
        compared: u64,
    },
    /// This CPU, or what is emulated of one, has no such path.
    Unsupported(String),
    /// An output was wrong, or something broke.
    Failed(String),
}

/// Carries out jobs, if the command line of this process asks for that.
pub fn run_if_asked(families: Families, operators: Operators) -> Option<ExitCode> {
    let mut words = std::env::args().skip(1);
    if words.next()? != WORD {
        return None;
    }
    let jobs: Option<Jobs> = words
        .next()
        .and_then(|word| serde_json::from_str(&word).ok());
    let Some(jobs) = jobs else {
        output::note("dpb: `characterized` is for `dpb characterize`");
        return Some(ExitCode::from(2));
    };
    let said = match Load::new(&jobs, families, operators).and_then(|load| load.carry_out(&jobs)) {
        Ok(()) => return Some(ExitCode::SUCCESS),
        Err(said) => said,
    };
    say(&said);
    Some(ExitCode::SUCCESS)
}

/// Says it, at once: the process may end without a further word.
fn say(said: &Said) {
    let line = serde_json::to_string(said).expect("words are JSON");
    // Whoever does not listen any more has ended this process's purpose.
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(line.as_bytes());
    let _ = stdout.flush();
}

/// A queue, and a job for each input.
struct Load {
    inputs: Vec<Input>,
    workload: Box<dyn Workload>,
    code: Option<String>,
    shape: OutputShape,
    queue: Box<dyn Queue>,
    /// Jobs at home, in the order of the inputs.
    home: VecDeque<Job>,
    /// The one that is to be submitted.
    ready: VecDeque<Job>,
    done: Vec<Completion>,
}

impl Load {
    fn new(jobs: &Jobs, families: Families, operators: Operators) -> Result<Self, Said> {
        let failed = |why: String| Said::Failed(why);
        let entry = operators.find(&jobs.operator);
        let entry = entry.ok_or_else(|| failed(format!("no operator {}", jobs.operator)))?;
        let case = entry.case(&jobs.parameters).map_err(of_setup)?;
        let workload = entry.workload(&case).map_err(of_setup)?;
        let backend = families.open(&jobs.backend);
        let backend = backend.map_err(|error| failed(error.to_string()))?;
        let operator = backend.prepare(&case.spec).map_err(of_setup)?;
        let (len, count) = (jobs.size as usize, jobs.batch as usize);
        let inputs = (0..jobs.inputs).map(|at| Input::of(&*workload, jobs.seed + at, len, count));
        let inputs: Result<Vec<Input>, String> = inputs.collect();
        let inputs = inputs.map_err(Said::Unsupported)?;
        let shape = operator.shape();
        let mut home = VecDeque::new();
        for (tag, input) in inputs.iter().enumerate() {
            let batch = input.batch().map_err(|error| failed(error.to_string()))?;
            let slot = match (shape, input.slot_bytes) {
                (OutputShape::Fixed(bytes), _) | (OutputShape::Variable, Some(bytes)) => bytes,
                (OutputShape::Variable, None) => operator.dst_len(batch.longest()),
            };
            let dst = alloc(&*backend, slot.saturating_mul(batch.len()))?;
            let mut src = alloc(&*backend, input.bytes.len())?;
            src.copy_from_slice(&input.bytes);
            let (src, items) = (src.freeze(), input.items.clone());
            home.push_back(Job::new(tag as u64, src, items, dst, shape));
        }
        Ok(Self {
            inputs,
            workload,
            code: backend.code(&case.spec),
            shape,
            queue: operator.open(NonZeroU32::MIN).map_err(of_setup)?,
            home,
            ready: VecDeque::with_capacity(1),
            done: Vec::with_capacity(1),
        })
    }

    /// Carries out each input once and checks it, says so, carries out the jobs that are counted, and looks whether their outputs are
    /// those of before, where there is one right output.
    fn carry_out(mut self, jobs: &Jobs) -> Result<(), Said> {
        let broken = |error: JobError| Said::Failed(error.to_string());
        let number: u64 = jobs.jobs.parse().unwrap_or(0);
        for _ in 0..self.inputs.len() {
            self.one().map_err(broken)?;
        }
        let compared = self.check()?;
        let before = match self.has_one_right_output() {
            true => self.outputs(),
            false => Vec::new(),
        };
        say(&Said::Ready {
            code: self.code.clone(),
            against: self.workload.name().to_owned(),
            compared,
        });
        if jobs.says_begin {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::USR1);
        }
        for _ in 0..number {
            self.one().map_err(broken)?;
        }
        let is_same = |(job, before): (&Job, &Vec<u8>)| {
            before.is_empty() || job.dst.iter().flat_map(|buf| buf.iter()).eq(before.iter())
        };
        match self.home.iter().zip(&before).all(is_same) {
            true => Ok(()),
            false => Err(Said::Failed(
                "outputs changed from one round to the next".to_owned(),
            )),
        }
    }

    /// The next job, from its submission to its completion.
    fn one(&mut self) -> Result<(), JobError> {
        self.ready.extend(self.home.pop_front());
        while !self.ready.is_empty() || self.queue.in_flight() > 0 {
            self.queue.submit(&mut self.ready);
            self.queue.poll(&mut self.done);
        }
        for completion in self.done.drain(..) {
            completion.result?;
            self.home.push_back(completion.job);
        }
        Ok(())
    }

    /// Compares the outputs of all jobs at home with what is right; says how many there were.
    fn check(&self) -> Result<u64, Said> {
        let mut compared = 0;
        for (job, input) in self.home.iter().zip(&self.inputs) {
            let wrong = |why: String| Said::Failed(format!("{}: {why}", input.what));
            let batch = input.batch().map_err(|error| wrong(error.to_string()))?;
            let slot_bytes =
                job.dst.iter().map(|buf| buf.len()).sum::<usize>() / batch.len().max(1);
            let outcomes = job.check_outcomes(self.shape);
            outcomes.map_err(|error| wrong(error.to_string()))?;
            for at in 0..batch.len() {
                let output = job.output(self.shape, at);
                let checked = self.workload.check(batch.item(at), output, slot_bytes);
                checked.map_err(wrong)?;
                compared += 1;
            }
        }
        Ok(compared)
    }

    /// True if an item has one right output, as the first one tells for all.
    fn has_one_right_output(&self) -> bool {
        let Some(batch) = self.inputs.first().and_then(|input| input.batch().ok()) else {
            return false;
        };
        let right = self.workload.right(batch.item(0), usize::MAX);
        !batch.is_empty() && matches!(right, Right::Only(_))
    }

    /// The bytes in the destinations of all jobs at home.
    fn outputs(&self) -> Vec<Vec<u8>> {
        let all = |job: &Job| job.dst.iter().flat_map(|buf| buf.iter().copied()).collect();
        self.home.iter().map(all).collect()
    }
}

fn alloc(backend: &dyn Backend, len: usize) -> Result<Buf, Said> {
    let mut memory = backend.alloc(len).map_err(of_setup)?;
    // The kernel hands out pages when they are first written: now.
    memory.fill(u8::MAX);
    Ok(memory)
}

fn of_setup(error: SetupError) -> Said {
    match error {
        SetupError::Unsupported(why) => Said::Unsupported(why.reason),
        error => Said::Failed(error.to_string()),
    }
}
