//! The families `cpu` and `pool`.

use dpb_core::lift::threads_max;
use dpb_core::{Backend, Family, Listed, OpSpec, OpenError};

use super::{Cpu, cores};
use crate::registry::Operators;

/// The family `cpu`: the code paths on the caller's thread, and `best`, which `cpu` alone means.
#[derive(Clone, Copy, Debug)]
pub struct CpuPaths(Operators);

/// The family `pool`: the best path on the number of workers behind the slash; without a number, on one for each core that this
/// process may use. `cpu-threads` is another name for it.
#[derive(Clone, Copy, Debug)]
pub struct Pools(Operators);

impl CpuPaths {
    /// The family whose backends have these operators.
    pub const fn new(operators: Operators) -> Self {
        Self(operators)
    }
}

impl Pools {
    /// The family whose backends have these operators.
    pub const fn new(operators: Operators) -> Self {
        Self(operators)
    }
}

impl Family for CpuPaths {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn backends(&self) -> Vec<Listed> {
        let best = Listed {
            instance: "best".to_owned(),
            is_here: true,
            summary: "the best path for each operator".to_owned(),
            details: "on the caller's thread".to_owned(),
        };
        let paths = self.0.paths().into_iter().map(|path| {
            let operators = self.0.iter().filter(|entry| entry.paths.contains(&path));
            let operators: Vec<&str> = operators.map(|entry| entry.name).collect();
            Listed {
                instance: path.to_string(),
                is_here: path.is_available(),
                summary: operators.join(", "),
                details: format!("needs {}", path.needs()),
            }
        });
        [best].into_iter().chain(paths).collect()
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError> {
        if matches!(instance, "" | "best") {
            return Ok(Box::new(Cpu::best().with_operators(self.0)));
        }
        let mut paths = self.0.paths().into_iter();
        let path = paths.find(|path| path.name() == instance);
        path.map(|path| Box::new(Cpu::on(path).with_operators(self.0)) as _)
            .ok_or_else(|| {
                let names: Vec<_> = self
                    .0
                    .paths()
                    .iter()
                    .map(|path| format!("cpu/{path}"))
                    .collect();
                OpenError::NoSuch(format!(
                    "no backend `cpu/{instance}`; there are: cpu/best, {}",
                    names.join(", ")
                ))
            })
    }

    /// The paths that compute the spec, whether this CPU has them or not: a row says what is missing.
    fn all_for(&self, spec: &OpSpec) -> Vec<String> {
        let entry = self.0.of(spec).into_iter();
        let paths = entry.flat_map(|entry| entry.paths_of(spec));
        paths.map(|path| path.to_string()).collect()
    }
}

impl Family for Pools {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["cpu-threads"]
    }

    fn backends(&self) -> Vec<Listed> {
        vec![Listed {
            instance: "N".to_owned(),
            is_here: true,
            summary: "the best path on N worker threads that all queues share".to_owned(),
            details: format!("{} cores here", cores()),
        }]
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError> {
        if instance.is_empty() {
            return Ok(Box::new(Cpu::pool(cores()).with_operators(self.0)));
        }
        let most = threads_max();
        match instance.parse() {
            Ok(threads) if threads <= most => {
                Ok(Box::new(Cpu::pool(threads).with_operators(self.0)))
            }
            _ => Err(OpenError::NoSuch(format!(
                "backend `pool/{instance}`: it needs a number of threads, at least 1 and at most {most} on this machine"
            ))),
        }
    }

    fn all_for(&self, spec: &OpSpec) -> Vec<String> {
        let is_known = self.0.of(spec).is_ok();
        is_known.then(|| cores().to_string()).into_iter().collect()
    }
}
