//! The tasks that a report can show: the program's own, and plug-ins by their manifests.

use std::collections::BTreeMap;

use dpb_core::measure::comparison::Declared;
use dpb_core::measure::import::{self, Program};

use crate::exit::Failure;
use crate::plugin::Plugins;
use crate::task::{Metric, ShownTask, Tasks};

/// The tasks that records can be shown by.
#[derive(Clone, Debug)]
pub struct ShownTasks {
    /// The program's own.
    pub own: Tasks,
    plugins: Vec<ShownTask>,
}

impl ShownTasks {
    /// The program's own tasks, and these plug-ins.
    ///
    /// # Errors
    /// If a plug-in's manifest is wrong.
    pub fn of(own: Tasks, plugins: &Plugins) -> Result<Self, Failure> {
        let found = plugins.names().map(|name| plugins.find(name));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let plugins = found.iter().flatten().map(|plugin| plugin.shown());
        Ok(Self {
            own,
            plugins: plugins.collect(),
        })
    }

    /// The task of this name.
    pub fn find(&self, name: &str) -> Option<ShownTask> {
        self.iter().find(|shown| shown.name == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = ShownTask> {
        let own = self.own.iter().map(|task| task.shown());
        own.chain(self.plugins.iter().copied())
    }

    /// The metrics of each task, as comparisons want them: those of these tasks, and of the programs whose results are imported.
    pub fn declared(&self) -> BTreeMap<String, Vec<Declared>> {
        let declared = |metric: &Metric| Declared {
            name: metric.name.to_owned(),
            better: metric.better(),
        };
        let shown = self.iter().map(|shown| {
            let metrics = shown.view.metrics.iter().map(declared);
            (shown.name.to_owned(), metrics.collect())
        });
        let programs = Program::ALL.map(|program| (program.name().to_owned(), program.metrics()));
        let criterion = (import::CRITERION.to_owned(), import::metrics_of_criterion());
        programs
            .into_iter()
            .chain([criterion])
            .chain(shown)
            .collect()
    }
}

impl From<Tasks> for ShownTasks {
    /// The program's own tasks alone.
    fn from(own: Tasks) -> Self {
        Self {
            own,
            plugins: Vec::new(),
        }
    }
}
