//! Changes of a system on the command line: `--set PLACE=VALUES`, each a sweep.

use dpb_core::measure::Value;
use dpb_sim::system::Setting;

use crate::args;

/// Settings that are made together, in the order in which they were given.
pub(super) type Settings = Vec<Setting>;

/// A place, and the values that it gets one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Swept {
    place: String,
    values: Vec<Setting>,
}

/// Several of them, as one `--set` has them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweeps(Vec<Swept>);

impl std::str::FromStr for Sweeps {
    type Err = String;

    /// `PLACE=VALUES`, several with semicolons between.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(';').map(str::trim);
        parts
            .filter(|part| !part.is_empty())
            .map(Swept::read)
            .collect::<Result<Vec<_>, _>>()
            .and_then(|sweeps| match sweeps.is_empty() {
                true => Err("a setting is missing, as card.pcie_ns=300,600".to_owned()),
                false => Ok(Self(sweeps)),
            })
    }
}

impl Swept {
    fn read(text: &str) -> Result<Self, String> {
        let (place, values) = text.split_once('=').ok_or_else(|| {
            format!("`{text}` has no value; settings look like card.pcie_ns=300,600")
        })?;
        let mut settings: Vec<Setting> = Vec::new();
        for value in values.split(',').map(str::trim) {
            for value in single(value)? {
                let setting = Setting::new(place, &value).map_err(|why| why.to_string())?;
                if settings.contains(&setting) {
                    return Err(format!("{}: `{value}` is there twice", setting.place()));
                }
                settings.push(setting);
            }
        }
        let place = place.trim().to_owned();
        Ok(Self {
            place,
            values: settings,
        })
    }
}

/// The values that one word stands for: a range of whole numbers doubles, sizes have units, all else is as in the file.
fn single(text: &str) -> Result<Vec<String>, String> {
    let is_range = text.contains("..") && text.starts_with(|c: char| c.is_ascii_digit());
    let is_size = text.starts_with(|c: char| c.is_ascii_digit()) && text.ends_with('B');
    match is_range || is_size {
        true => args::sizes(text).map(|sizes| sizes.iter().map(u64::to_string).collect()),
        false => Ok(vec![text.to_owned()]),
    }
}

/// Every combination of the values of all sweeps; the last changes first.
///
/// # Errors
/// If a place has two sweeps.
pub(super) fn combinations(all: &[Sweeps]) -> Result<Vec<Settings>, String> {
    let sweeps: Vec<&Swept> = all.iter().flat_map(|sweeps| &sweeps.0).collect();
    let mut combined: Vec<Settings> = vec![Vec::new()];
    for (at, swept) in sweeps.iter().enumerate() {
        if sweeps[..at]
            .iter()
            .any(|before| before.place == swept.place)
        {
            return Err(format!("{} is set twice", swept.place));
        }
        if combined.len().saturating_mul(swept.values.len()) > COMBINATIONS_MAX {
            return Err(format!("more than {COMBINATIONS_MAX} combinations"));
        }
        let longer = combined.iter().flat_map(|before| {
            let each = swept.values.iter();
            each.map(move |value| [before.as_slice(), std::slice::from_ref(value)].concat())
        });
        combined = longer.collect();
    }
    Ok(combined)
}

/// Most systems that a command line asks for.
const COMBINATIONS_MAX: usize = 10_000;

/// The settings in one `--set`.
pub(super) fn written(settings: &[Setting]) -> String {
    let each = settings.iter();
    let each: Vec<String> = each
        .map(|setting| format!("{}={}", setting.place(), recorded(setting)))
        .collect();
    each.join("; ")
}

/// The value as a record has it.
pub(super) fn recorded(setting: &Setting) -> Value {
    match setting.value() {
        toml::Value::Integer(value) => Value::Int(*value),
        toml::Value::Float(value) => Value::Float(*value),
        toml::Value::Boolean(value) => Value::Bool(*value),
        toml::Value::String(value) => Value::Text(value.clone()),
        // A setting has no other values.
        other => Value::Text(format!("{other:?}")),
    }
}

/// True if a setting of this text may name a file; also of text that is no setting.
pub(crate) fn names_file(text: &str) -> bool {
    let sweeps = text.parse::<Sweeps>();
    let all = |sweeps: Sweeps| {
        let mut values = sweeps.0.into_iter().flat_map(|swept| swept.values);
        values.any(|setting| setting.names_file())
    };
    sweeps.map_or(true, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(texts: &[&str]) -> Result<Vec<String>, String> {
        let sweeps: Result<Vec<Sweeps>, _> = texts.iter().map(|text| text.parse()).collect();
        let all = combinations(&sweeps?)?;
        Ok(all.iter().map(|settings| written(settings)).collect())
    }

    #[test]
    fn settings_sweep_and_combine() {
        assert_eq!(combined(&[]), Ok(vec![String::new()]));
        let both = combined(&[
            "card.stage.byte_ps=125..500",
            "card.digest.operator=sha256,sha512",
        ]);
        let expected: Vec<String> = [125, 250, 500]
            .iter()
            .flat_map(|ps| {
                ["sha256", "sha512"]
                    .map(|of| format!("card.stage.byte_ps={ps}; card.digest.operator={of}"))
            })
            .collect();
        assert_eq!(both, Ok(expected));
        assert_eq!(
            combined(&[
                "link.loss=0.5, 1e-3; host[a].checksums = true",
                "host.connect.bytes=1MB"
            ]),
            Ok(vec![
                "link.loss=0.5; host[a].checksums=true; host.connect.bytes=1000000".to_owned(),
                "link.loss=0.001; host[a].checksums=true; host.connect.bytes=1000000".to_owned(),
            ])
        );
        // What is written is read as the same.
        let written = combined(&["a.b=1,x"]).expect("two");
        assert_eq!(combined(&[&written[1]]), Ok(vec![written[1].clone()]));
    }

    #[test]
    fn what_is_no_setting_is_said() {
        for (texts, said) in [
            (&["card.pcie_ns"][..], "has no value"),
            (&[""], "is missing"),
            (&["card.pcie_ns=1,,2"], "has no value"),
            (&["card.pcie_ns=8..4"], "doubles upwards"),
            (&["card.pcie_ns=1,1"], "there twice"),
            (&["card.pcie_ns=1", "card.pcie_ns=2"], "is set twice"),
            (&["card..pcie_ns=1"], "is no place"),
        ] {
            let why = combined(texts).expect_err(said);
            assert!(why.contains(said), "{why}");
        }
        assert!(names_file("card.stage.record=/etc/passwd"));
        assert!(names_file("card[server].stage.model=/etc/passwd"));
        assert!(!names_file("card.stage.byte_ps=1,2; link.loss=0.1"));
    }
}
