//! The answer to a question: advice, what it predicts, and how that is measured.

use dpb_core::measure::Record;
use dpb_insight::advice::advisor::{self, Prediction};
use dpb_insight::advice::{Advice, Advisor, Side};

use super::{Args, measure};
use crate::Globals;
use crate::exit::Failure;

/// Advice, its predictions, and the commands that would prove it wrong.
pub(super) struct Answer<'a> {
    pub(super) args: &'a Args,
    pub(super) advisor: Advisor,
    pub(super) advice: Advice,
    /// A record of the host and one of the device: checks are their tests with other loads.
    pub(super) of: [Record; 2],
    pub(super) predictions: Vec<Prediction>,
    /// The hash of the predictions' lines.
    pub(super) hash: String,
    pub(super) commands: Vec<measure::Command>,
}

impl<'a> Answer<'a> {
    /// The answer to a question, with the test of each side's record in `of`.
    ///
    /// # Errors
    /// If a record does not say how its test is run again.
    pub(super) fn new(
        args: &'a Args,
        advisor: Advisor,
        advice: Advice,
        of: [Record; 2],
        globals: &Globals,
    ) -> Result<Self, Failure> {
        let predictions = advisor.predictions(&advice);
        let lines = predictions.iter().map(|one| one.line.as_str());
        Ok(Self {
            hash: advisor::frozen(lines),
            commands: measure::commands(args, &advice, &predictions, &of, globals)?,
            args,
            advisor,
            advice,
            of,
            predictions,
        })
    }

    /// The host, or the device.
    pub(super) fn side(&self, of_device: bool) -> &Side {
        match of_device {
            true => &self.advisor.device,
            false => &self.advisor.host,
        }
    }

    /// A side's backend; with its machine where there are two.
    pub(super) fn name(&self, of_device: bool) -> String {
        let side = self.side(of_device);
        match self.advisor.host.machine == self.advisor.device.machine {
            true => side.backend.clone(),
            false => format!("{} on {}", side.backend, side.machine),
        }
    }

    /// The commands as a person runs them, each with its machine.
    pub(super) fn command_lines(&self) -> Vec<String> {
        let lines = self.commands.iter().map(|command| {
            let words: Vec<String> = command.words.iter().map(|word| quoted(word)).collect();
            let machine = &self.side(command.of_device).machine;
            format!("dpb {}  # on {machine}", words.join(" "))
        });
        lines.collect()
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:+@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
