//! Changes of a system's parameters, each by its place in the file: `card.stage.byte_ps` is 500.
//!
//! A place is the names of tables and of a parameter, with points between. Where a table is there several times, as hosts are, it
//! means the parameter of each; `host[server].cores` means that of the host called `server`, and `link[0].latency_ns` that of the
//! first link. A card goes by its host's name. The value `none` takes a parameter away, so that it is as in the part's model, or not there.

use toml::{Table, Value};

use super::description::Description;
use super::refusal::{DescriptionError, refuse};

/// A parameter of a system, and a value for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    place: String,
    steps: Vec<Step>,
    value: Value,
}

/// A name on the way to a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    key: String,
    /// The one that is meant of several.
    which: Option<String>,
}

/// Tables that a file need not have: a setting makes them.
const MADE: [&str; 1] = ["tcp"];
/// The value that takes a parameter away. No parameter of text has such a value.
const NONE: &str = "none";
/// Parameters that name a file.
const FILES: [&str; 2] = ["record", "model"];

impl Setting {
    /// A setting of this place. The value is written as in the file, but that text needs no quotes: `500`, `true`, `sha512`. `none` is no value.
    ///
    /// # Errors
    /// If the place is none: a name is missing, or a bracket.
    pub fn new(place: &str, value: &str) -> Result<Self, DescriptionError> {
        let steps = steps(place).ok_or_else(|| {
            DescriptionError(format!(
                "`{place}` is no place of a parameter, as card.stage.byte_ps is"
            ))
        })?;
        let text = value.trim();
        if text.is_empty() {
            return refuse(format!("`{place}` has no value"));
        }
        let read = format!("value = {text}").parse::<Table>().ok();
        let read = read.filter(|table| table.len() == 1);
        let value = match read.and_then(|mut table| table.remove("value")) {
            None => Value::String(text.to_owned()),
            Some(
                value
                @ (Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::String(_)),
            ) => value,
            Some(_) => {
                return refuse(format!(
                    "`{place}`: a value is a number, true, false or a text"
                ));
            }
        };
        Ok(Self {
            place: place.trim().to_owned(),
            steps,
            value,
        })
    }

    /// The place.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// True if the value may name a file.
    pub fn names_file(&self) -> bool {
        let last = self.steps.last();
        last.is_some_and(|step| FILES.contains(&step.key.as_str()))
    }

    /// Makes the change wherever the place is.
    fn apply(&self, file: &mut Table) -> Result<(), DescriptionError> {
        if let Some(step) = self
            .steps
            .first()
            .filter(|step| MADE.contains(&step.key.as_str()))
        {
            file.entry(&step.key)
                .or_insert_with(|| Value::Table(Table::new()));
        }
        let value = (self.value.as_str() != Some(NONE)).then_some(&self.value);
        match set(file, &self.steps, value) {
            0 => refuse(format!(
                "the system has no `{}`: {}",
                self.place,
                self.known(file)
            )),
            _ => Ok(()),
        }
    }

    /// The names that there are instead.
    fn known(&self, file: &Table) -> String {
        let names: Vec<&str> = file
            .iter()
            .filter(|(_, value)| is_part(value))
            .map(|(name, _)| name.as_str())
            .collect();
        format!("there are {}", names.join(", "))
    }
}

impl Description {
    /// The system of this text with these changes.
    ///
    /// # Errors
    /// The error in the text, or that it has no such place, or no such parameter there.
    pub fn with(text: &str, settings: &[Setting]) -> Result<Self, DescriptionError> {
        // Read as it is first: errors in the text name their line.
        let plain: Self = text.parse()?;
        if settings.is_empty() {
            return Ok(plain);
        }
        let mut file = text
            .parse::<Table>()
            .map_err(|wrong| DescriptionError(wrong.to_string()))?;
        settings
            .iter()
            .try_for_each(|setting| setting.apply(&mut file))?;
        let places: Vec<&str> = settings.iter().map(Setting::place).collect();
        file.try_into().map_err(|wrong: toml::de::Error| {
            DescriptionError(format!("{}: {}", places.join(", "), wrong.message()))
        })
    }
}

/// True of tables and of lists of them.
fn is_part(value: &Value) -> bool {
    value.is_table()
        || value
            .as_array()
            .is_some_and(|list| list.iter().any(Value::is_table))
}

/// Sets the parameter in each table that the steps lead to, or takes it away where it is; says in how many.
fn set(table: &mut Table, steps: &[Step], value: Option<&Value>) -> usize {
    let [step, rest @ ..] = steps else { return 0 };
    if rest.is_empty() {
        // A part is no parameter.
        if step.which.is_some() || table.get(&step.key).is_some_and(is_part) {
            return 0;
        }
        return match value {
            Some(value) => {
                table.insert(step.key.clone(), value.clone());
                1
            }
            None => usize::from(table.remove(&step.key).is_some()),
        };
    }
    match table.get_mut(&step.key) {
        Some(Value::Table(inner)) if step.which.is_none() => set(inner, rest, value),
        Some(Value::Array(list)) => {
            let meant = list.iter_mut().enumerate().filter_map(|(at, one)| {
                let one = one.as_table_mut()?;
                step.means(at, one).then_some(one)
            });
            meant.map(|one| set(one, rest, value)).sum()
        }
        _ => 0,
    }
}

impl Step {
    /// True if this one of several is meant.
    fn means(&self, at: usize, one: &Table) -> bool {
        let Some(which) = &self.which else {
            return true;
        };
        let named = ["name", "host"]
            .iter()
            .filter_map(|key| one.get(*key)?.as_str());
        named.into_iter().any(|name| name == which) || which.parse() == Ok(at)
    }
}

/// The steps of a place; `None` if it is none.
fn steps(place: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = place.trim();
    loop {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (key, behind) = rest.split_at(end);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if key.is_empty() || !key.chars().all(is_name) {
            return None;
        }
        let (which, behind) = match behind.strip_prefix('[') {
            None => (None, behind),
            Some(inside) => {
                let (which, behind) = inside.split_once(']')?;
                (
                    Some(which.to_owned())
                        .filter(|which| !which.is_empty())
                        .map(Some)?,
                    behind,
                )
            }
        };
        steps.push(Step {
            key: key.to_owned(),
            which,
        });
        match behind.strip_prefix('.') {
            Some(more) => rest = more,
            None if behind.is_empty() => return Some(steps),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [[host]]
        name = "a"
        [[host]]
        name = "b.c"
        cores = 4
        [[card]]
        host = "a"
        digest = { operator = "sha256" }
        stage = [{ name = "one" }, { name = "two", lanes = 3 }]
        [[link]]
        ends = ["a", "b.c"]
        [[link]]
        ends = ["b.c", "a"]
    "#;

    fn with(settings: &[(&str, &str)]) -> Result<Description, DescriptionError> {
        let settings: Result<Vec<Setting>, _> = settings
            .iter()
            .map(|(place, value)| Setting::new(place, value))
            .collect();
        Description::with(TEXT, &settings?)
    }

    #[test]
    fn a_place_means_each_part_or_the_one_that_is_named() {
        let changed = with(&[
            ("host.cores", "2"),
            ("host[b.c].send_ns", "1.5"),
            ("card[a].stage[two].lanes", "8"),
            ("card.stage.byte_ps", "7"),
            ("card.digest.operator", "sha512"),
            ("link[1].rate_gbps", "25"),
            ("tcp.mtu", "9000"),
            ("limit_s", "3"),
        ])
        .expect("all of them are there");
        assert_eq!([0, 1].map(|at| changed.host[at].cores), [Some(2), Some(2)]);
        assert_eq!([0, 1].map(|at| changed.host[at].send_ns), [None, Some(1.5)]);
        let stages = &changed.card[0].stage;
        assert_eq!([0, 1].map(|at| stages[at].lanes), [None, Some(8)]);
        assert_eq!([0, 1].map(|at| stages[at].byte_ps), [7, 7]);
        assert_eq!(
            changed.card[0]
                .digest
                .as_ref()
                .map(|it| it.operator.as_str()),
            Some("sha512")
        );
        assert_eq!(
            [0, 1].map(|at| changed.link[at].rate_gbps),
            [None, Some(25.0)]
        );
        assert_eq!((changed.tcp.mtu, changed.limit_s), (Some(9000), 3.0));
        // One that is there is taken away.
        let less = with(&[("host.cores", "none"), ("card.stage.lanes", "none")]);
        let less = less.expect("each is there once");
        assert_eq!([0, 1].map(|at| less.host[at].cores), [None, None]);
        assert_eq!([0, 1].map(|at| less.card[0].stage[at].lanes), [None, None]);
        // The later of two settings counts.
        let twice = with(&[("host.cores", "2"), ("host[a].cores", "5")]).expect("both are there");
        assert_eq!([0, 1].map(|at| twice.host[at].cores), [Some(5), Some(2)]);
        assert_eq!(
            with(&[]).expect("nothing changes"),
            TEXT.parse().expect("a system")
        );
    }

    #[test]
    fn what_is_no_place_or_no_parameter_is_said() {
        for (place, value, said) in [
            ("host.core", "2", "unknown field `core`"),
            (
                "crad.pcie_ns",
                "2",
                "no `crad.pcie_ns`: there are card, host, link",
            ),
            (
                "switch.forward_ns",
                "2",
                "the system has no `switch.forward_ns`",
            ),
            ("host[c].cores", "2", "the system has no `host[c].cores`"),
            ("card.stage[two].lanes", "many", "invalid type"),
            ("card.stage", "2", "the system has no `card.stage`"),
            ("card.stage", "[{ record = 1 }]", "a value is a number"),
            ("limit_s", "1979-05-27", "a value is a number"),
            ("host", "2", "the system has no `host`"),
            ("host.cores", " ", "has no value"),
            ("host.ring", "none", "the system has no `host.ring`"),
            ("host.name", "none", "missing field `name`"),
            ("host..cores", "2", "is no place"),
            ("host[a.cores", "2", "is no place"),
            ("host[].cores", "2", "is no place"),
            ("host[a]cores", "2", "is no place"),
            ("", "2", "is no place"),
            ("host.cores", "2\nname = 3", "invalid type"),
        ] {
            let why = with(&[(place, value)]).expect_err(place).to_string();
            assert!(why.contains(said), "{place}: {why}");
        }
    }

    #[test]
    fn settings_that_name_files_are_known() {
        let names_file = |place, value| Setting::new(place, value).expect("a setting").names_file();
        assert!(names_file("card.stage.record", "/etc/passwd"));
        assert!(!names_file("card.stage.byte_ps", "500"));
    }
}
