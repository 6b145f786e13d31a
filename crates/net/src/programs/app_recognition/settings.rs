//! Settings of recognition: [`Settings`].

use std::sync::Arc;

use super::Policy;
use crate::flow::Timeouts;
use crate::recognition::{self, Applications};

/// Settings of the recognition of one shard.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Flows that a shard has room for, of each version of IP.
    pub flows: usize,
    /// After so long without a packet a flow ends.
    pub timeouts: Timeouts,
    /// A number that nobody outside knows: flows' places depend on it.
    pub seed: u64,
    /// The recognizer's own. Whether there are rules is taken from [`Recognise::new`].
    pub recognizer: recognition::Settings,
    /// The actions.
    pub policy: Policy,
    /// The applications that verdicts name.
    pub applications: Arc<Applications>,
}
