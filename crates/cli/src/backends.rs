//! Every backend by its name: CPU paths, thread pools, models.

use dpb_core::measure::Evidence;
use dpb_core::measure::provenance::allowed_cpus;
use dpb_core::{Backend, OpSpec, Unsupported};
use dpb_operators::cpu;
use dpb_operators::registry::Entry;

/// The backend called `name`.
///
/// # Errors
/// If there is none; the message lists what there is.
pub fn by_name(name: &str) -> Result<Box<dyn Backend>, Unsupported> {
    cpu::by_name(name).map(|cpu| Box::new(cpu) as Box<dyn Backend>)
}

/// What a number from the backend called `name` is.
pub fn evidence(name: &str) -> Evidence {
    match name.strip_prefix("sim/") {
        Some(model) => Evidence::Simulated {
            model: model.to_owned(),
        },
        None => Evidence::of_this_cpu(),
    }
}

/// The names of all backends that `entry` has a word to say on: its own paths, found here or not, and a pool of as many
/// workers as this process may use cores.
pub fn all_for(entry: &Entry) -> Vec<String> {
    let mut names: Vec<String> = entry
        .paths
        .iter()
        .map(|path| format!("cpu/{path}"))
        .collect();
    names.push(format!("pool/{}", allowed_cpus().len().max(1)));
    names
}

/// The code path that stands behind the name here: what `cpu/best` and `pool/N` mean on this machine.
pub fn path(name: &str, spec: &OpSpec) -> Option<String> {
    let cpu = cpu::by_name(name).ok()?;
    cpu.path(spec).ok().map(|path| path.to_string())
}
