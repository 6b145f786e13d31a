//! What tables call a machine, and a record's row.

use dpb_core::measure::Record;

/// CPU, level, kernel, toolchain, as the record has them.
pub(crate) fn machine(record: &Record) -> String {
    let here = &record.provenance;
    format!(
        "{}, {}, {} CPUs, Linux {}, {}, dpb {}",
        here.cpu_model, here.cpu_level, here.cpus, here.kernel, here.toolchain, here.dpb_version
    )
}

/// A record's row: operator, its parameters but keys and tables, the shape of a call.
pub(crate) fn in_words(record: &Record) -> String {
    let of = |name: &str| {
        record
            .parameters
            .get(name)
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    let own = record.parameters.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("op.")?;
        let value = value.to_string();
        let is_short = value.len() <= 16 && !matches!(name, "key" | "routes" | "rules" | "private");
        is_short.then(|| format!("{name}={value}"))
    });
    let own: Vec<String> = own.collect();
    let control = match of("control").as_str() {
        "true" => ", control",
        _ => "",
    };
    format!(
        "{} {}, {} x {} B x {}{control}",
        of("operator"),
        own.join(","),
        of("count"),
        of("size"),
        of("calls")
    )
}
