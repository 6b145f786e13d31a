//! Application recognition as a program: [`Recognition`].

use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::measure::Value;
use dpb_core::{Clock, SetupError};
use dpb_net::flow::Timeouts;
use dpb_net::pipeline::Stage;
use dpb_net::programs::Engine;
use dpb_net::programs::app_recognition::{
    self, Action, Counts, Policy, Recognise, Results, RuleEngine, Settings, Tally, Totals,
};
use dpb_net::recognition::{self, Applications};

use super::maker::Maker;
use crate::Globals;
use crate::cmd::net::app_recognition::operators::{Compression, Specs};
use crate::cmd::net::app_recognition::right::{self, EVERY, SAMPLES_MAX};
use crate::cmd::net::traffic::word;
use crate::exit::Failure;

/// Names of servers that are counted one by one.
const NAMES_MAX: usize = 256;

/// The recognition of all shards: its operators, and what it has found out.
pub(super) struct Recognition {
    settings: Settings,
    rules: RuleEngine,
    hash: Engine,
    compress: Engine,
    compression: Compression,
    payload_bytes_max: usize,
    hashed: Arc<Results>,
    compressed: Arc<Results>,
    tally: Arc<Tally>,
    counts: Mutex<Vec<Arc<Counts>>>,
}

/// The flows of one kind.
pub struct Found {
    /// Their application, or their protocol where no application is known.
    pub kind: String,
    /// The server's name, with escapes for what cannot be printed; empty where clients say none.
    pub server: String,
    /// Their number.
    pub flows: u64,
}

impl Maker<'_> {
    pub(super) fn recognition(&mut self) -> Result<Recognition, Failure> {
        let (flags, globals) = (&self.flags.recognition, self.globals);
        let applications = Applications::built_in();
        let policy = Policy::read(&flags.policy, &applications);
        let policy =
            policy.map_err(|why| Failure::usage(format!("--policy {}: {why}", flags.policy)))?;
        let specs = Specs::new(flags.rules.as_deref(), flags.compression, globals.operators);
        let specs = specs.map_err(Failure::usage)?;
        self.parameters.extend([
            ("policy", Value::from(flags.policy.as_str())),
            ("compression", word(flags.compression).into()),
            ("flows", self.flags.flows.flows.into()),
        ]);
        if let Some(path) = &flags.rules {
            self.parameters
                .push(("rules", path.display().to_string().into()));
        }
        let rules = RuleEngine::new(self.engine(&specs.rules)?);
        Ok(Recognition {
            settings: Settings {
                flows: self.flags.flows.flows as usize,
                timeouts: Timeouts::default(),
                seed: self.setting.seed,
                recognizer: recognition::Settings {
                    seed: self.setting.seed,
                    ..recognition::Settings::default()
                },
                policy,
                applications,
            },
            rules: rules.map_err(|why| Failure::unavailable(why.to_string()))?,
            hash: self.engine(&specs.hash)?,
            compress: self.engine(&specs.compress)?,
            compression: flags.compression,
            payload_bytes_max: self.mtu.into(),
            hashed: Arc::new(Results::new(EVERY, SAMPLES_MAX)),
            compressed: Arc::new(Results::new(EVERY, SAMPLES_MAX)),
            tally: Arc::new(Tally::new(NAMES_MAX)),
            counts: Mutex::default(),
        })
    }
}

impl Recognition {
    /// The stages of a shard. `seed` is another one for each.
    pub(super) fn stages(
        &self,
        seed: u64,
        clock: &Arc<dyn Clock>,
    ) -> Result<Vec<Box<dyn Stage>>, SetupError> {
        let mut settings = self.settings.clone();
        (settings.seed, settings.recognizer.seed) = (seed, seed);
        let recognise = Recognise::new(&settings, Some(&self.rules), None, Arc::clone(clock))?;
        let recognise = recognise.tallied(Arc::clone(&self.tally));
        let (hashed, compressed) = (Arc::clone(&self.hashed), Arc::clone(&self.compressed));
        let hash = app_recognition::hash(&self.hash, hashed)?;
        let compress =
            app_recognition::compress(&self.compress, compressed, self.payload_bytes_max)?;
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.push(recognise.counts());
        Ok(vec![
            Box::new(recognise),
            Box::new(hash),
            Box::new(compress),
            Box::new(app_recognition::send_back()),
        ])
    }

    fn totals(&self) -> Vec<Totals> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|counts| counts.read()).collect()
    }

    /// Counts over all shards, by name.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let totals = self.totals();
        let sum = |of: fn(&Totals) -> u64| totals.iter().map(of).sum();
        let [hashed, compressed] = [&self.hashed, &self.compressed].map(|results| results.read());
        vec![
            ("flows_begun", sum(|totals| totals.began)),
            ("flows_ended", sum(|totals| totals.ended)),
            ("flows_decided", sum(|totals| totals.decided)),
            ("flows_by_rule", sum(|totals| totals.by_rule)),
            ("flows_given_up", sum(|totals| totals.given_up)),
            ("flows_of_other_servers", self.tally.beyond()),
            ("table_full", sum(|totals| totals.full)),
            ("packets_inspected", sum(|totals| totals.inspected)),
            ("packets_passed", sum(|totals| totals.of(Action::Pass))),
            ("packets_sent_back", sum(|totals| totals.of(Action::Back))),
            ("packets_hashed", hashed.items),
            ("hashed_bytes", hashed.bytes_in),
            ("hash_failed", hashed.failed),
            ("packets_compressed", compressed.items),
            ("compressed_bytes_in", compressed.bytes_in),
            ("compressed_bytes_out", compressed.bytes_out),
            ("compress_failed", compressed.failed),
            ("rule_failed", sum(|totals| totals.rule_failed)),
        ]
    }

    /// The flows that were decided, the most frequent kinds first.
    pub(super) fn found(&self) -> Vec<Found> {
        let kinds = self.tally.read().into_iter();
        let found = kinds.map(|kind| Found {
            kind: match kind.application {
                Some(application) => self.settings.applications.name(application).to_owned(),
                None => kind.protocol.name().to_owned(),
            },
            server: String::from_utf8_lossy(&kind.name)
                .escape_debug()
                .to_string(),
            flows: kind.flows,
        });
        found.collect()
    }

    /// Checks that each packet has an action which was carried out, but for so many `in_flight`, and the outputs that were kept; says how many of these.
    ///
    /// # Errors
    /// The first that is wrong, as a sentence.
    pub(super) fn check(&self, in_flight: u64, globals: &Globals) -> Result<usize, String> {
        let [hashed, compressed] = [&self.hashed, &self.compressed].map(|results| results.read());
        right::carried_out(&self.totals(), &hashed, &compressed, in_flight)?;
        right::samples(&self.hashed, &self.compressed, self.compression, globals)
    }
}
