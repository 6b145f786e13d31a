//! What `rxpmatch` is run on, and what is right for it.

use std::sync::{Arc, LazyLock, Mutex};

use dpb_core::{Input, Material, OpSpec, Right, SetupError, Workload, spec};
use regex_automata::hybrid::dfa::Cache;

use super::loaded::Loaded;
use super::portable::{Oracle, output};
use super::{PORTABLE, RuleSet, SET, traffic};
use crate::entry::{Case, own};

/// The rules that stand in where no file is given.
pub(super) fn built_in(set: RuleSet) -> Material {
    static IPS: LazyLock<Material> =
        LazyLock::new(|| Material::public(*include_bytes!("sets/ips.rules")));
    static URL: LazyLock<Material> =
        LazyLock::new(|| Material::public(*include_bytes!("sets/url.rules")));
    static Q13: LazyLock<Material> =
        LazyLock::new(|| Material::public(*include_bytes!("sets/q13.rules")));
    match set {
        RuleSet::Ips => IPS.clone(),
        RuleSet::Url => URL.clone(),
        RuleSet::Q13 => Q13.clone(),
    }
}

/// Payloads as the case says; right is what each rule by itself says.
pub(super) struct Payloads {
    spec: OpSpec,
    rules: Arc<Loaded>,
    set: RuleSet,
    oracle: Oracle,
    caches: Mutex<Vec<Cache>>,
}

impl Payloads {
    pub(super) fn new(case: &Case) -> Result<Self, SetupError> {
        let spec::RxpMatch { rules, unsupported } = own(&case.spec);
        let rules = Loaded::of(rules, *unsupported)?;
        let oracle = Oracle::new(&rules);
        Ok(Self {
            spec: case.spec.clone(),
            caches: Mutex::new(oracle.caches()),
            oracle,
            rules,
            set: case.word(SET),
        })
    }
}

impl Workload for Payloads {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn plain(&self, seed: u64, len: usize, count: usize) -> Input {
        let traffic = match self.set {
            RuleSet::Ips => "HTTP requests",
            RuleSet::Url => "URLs",
            RuleSet::Q13 => "comments on orders",
        };
        let what = format!("generated {traffic}");
        let bytes = traffic::payloads(self.set, &self.rules, seed, (len, count));
        Input::fixed(&what, bytes, len, count)
    }

    fn describe(&self, plain: &str) -> String {
        let rules = self.rules.rules().len();
        match self.rules.skipped().len() {
            0 => format!("{plain}, {rules} rules"),
            skipped => format!("{plain}, {rules} rules, {skipped} left out as unsupported"),
        }
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        let mut caches = self.caches.lock().expect("no search panics");
        let found = self.oracle.matches(&mut caches, &[item]);
        output(&found[0]).into()
    }
}
