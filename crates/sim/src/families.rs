//! The families `sim` and `faulty`. What stands behind the slash says which model or which faults, as `NAME=VALUE` pairs; the backend
//! inside is the program's to choose.

use std::sync::OnceLock;

use dpb_core::{Backend, Family, Listed, OpSpec, OpenError, SetupError};

use crate::{Faults, Faulty, Model, Modelled, Simulation};

/// Opens the backend inside.
pub type OpenInner = &'static (dyn Fn() -> Box<dyn Backend> + Sync);

/// The family `sim`: modelled engines, all in one simulation. `sim/default`, or `sim` alone, is [`Model::default`].
#[allow(missing_debug_implementations)]
pub struct Models {
    inner: OpenInner,
    simulation: OnceLock<Simulation>,
}

/// The family `faulty`: the backend inside with faults on purpose.
#[allow(missing_debug_implementations)]
pub struct Faultiness {
    inner: OpenInner,
}

impl Models {
    /// Models whose results `inner` computes.
    pub const fn new(inner: OpenInner) -> Self {
        Self {
            inner,
            simulation: OnceLock::new(),
        }
    }

    /// The simulation that its engines live in.
    pub fn simulation(&self) -> &Simulation {
        self.simulation.get_or_init(Simulation::new)
    }
}

impl Faultiness {
    /// Faults of `inner`.
    pub const fn new(inner: OpenInner) -> Self {
        Self { inner }
    }
}

impl Family for Models {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn backends(&self) -> Vec<Listed> {
        let inner = (self.inner)();
        let listed = |instance: &str, summary: String, details: String| Listed {
            instance: instance.to_owned(),
            is_here: true,
            summary,
            details,
        };
        vec![
            listed(
                DEFAULT,
                format!(
                    "a modelled engine on virtual time, its results by {}",
                    inner.name()
                ),
                Model::default().to_string(),
            ),
            listed(
                "NAME=VALUE,…",
                "the same with other numbers".to_owned(),
                "for example sim/lanes=2,job_ns=500".to_owned(),
            ),
        ]
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError> {
        let (name, text) = match instance {
            "" | DEFAULT => (DEFAULT, ""),
            text => (text, text),
        };
        let model: Model = text.parse().map_err(no_such)?;
        let engine = Modelled::new(name, model, (self.inner)(), self.simulation());
        Ok(Box::new(engine))
    }

    /// The default, where the backend inside computes `spec`.
    fn all_for(&self, spec: &OpSpec) -> Vec<String> {
        let is_able = (self.inner)().limits(spec).is_ok();
        let default = is_able.then(|| DEFAULT.to_owned());
        default.into_iter().collect()
    }
}

impl Family for Faultiness {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn backends(&self) -> Vec<Listed> {
        let inner = (self.inner)();
        vec![Listed {
            instance: "NAME=VALUE,…".to_owned(),
            is_here: true,
            summary: format!(
                "{} with faults on purpose, to see that they are found",
                inner.name()
            ),
            details: Faults::default().to_string(),
        }]
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError> {
        let faults: Faults = instance.parse().map_err(no_such)?;
        Ok(Box::new(Faulty::new(instance, faults, (self.inner)())))
    }

    /// None: nobody wants faults without asking for them.
    fn all_for(&self, _: &OpSpec) -> Vec<String> {
        Vec::new()
    }
}

/// The model without a parameter of its own.
const DEFAULT: &str = "default";

fn no_such(wrong: SetupError) -> OpenError {
    OpenError::NoSuch(wrong.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpb_core::conformance::sample::Sample;
    use dpb_core::spec;

    fn sample() -> Box<dyn Backend> {
        Box::new(Sample::new(None))
    }

    #[test]
    fn names_say_the_model_and_the_faults() {
        let models = Models::new(&sample);
        for (instance, name) in [
            ("", "sim/default"),
            ("default", "sim/default"),
            ("lanes=2,job_ns=500", "sim/lanes=2,job_ns=500"),
        ] {
            assert_eq!(models.open(instance).expect("a model").name(), name);
        }
        let faults = Faultiness::new(&sample);
        let backend = faults.open("flips_ppm=7").expect("faults");
        assert_eq!(backend.name(), "faulty/flips_ppm=7");
        for opened in [models.open("wings=2"), faults.open("wings=2")] {
            let wrong = opened.err().expect("no such parameter");
            assert!(matches!(&wrong, OpenError::NoSuch(what) if what.contains("wings")));
        }
    }

    #[test]
    fn all_backends_are_the_default_model_where_it_can_and_no_faults() {
        let models = Models::new(&sample);
        assert_eq!(models.all_for(&OpSpec::from(spec::Crc32c)), ["default"]);
        assert_eq!(models.all_for(&OpSpec::from(spec::Sha256)), [""; 0]);
        assert_eq!(
            Faultiness::new(&sample).all_for(&OpSpec::from(spec::Crc32c)),
            [""; 0]
        );
    }
}
