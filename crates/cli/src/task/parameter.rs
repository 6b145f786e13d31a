//! A task's parameters, read from the flags of its verb.

use std::fmt;

use clap::{Arg, ArgAction};
use serde_json::{Value, json};

use crate::args;

/// A parameter of a task, or of a plug-in.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The name: that of the flag, with underscores for hyphens, as records have it.
    pub name: String,
    /// The name by which the command line's parser knows it.
    pub id: String,
    /// What the value changes.
    pub meaning: String,
    /// The values that it takes.
    pub kind: Kind,
    /// The bounds of a number, in the unit of records: bytes, seconds, a share of one. A verb's flags have none here: their parsers know.
    pub range: Range,
    /// The value when none is given; `None` where the task finds one or needs none.
    pub default: Option<String>,
    /// Whether a test must name it.
    pub is_required: bool,
    /// How it stands on a command line.
    pub place: Place,
}

/// The smallest and the largest value of a number; `None` where there is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// The smallest.
    pub minimum: Option<f64>,
    /// The largest.
    pub maximum: Option<f64>,
}

/// How a parameter stands on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// By its position alone.
    Position,
    /// Behind its flag.
    Flag,
}

/// The values that a parameter takes. A flag says it by the name of its value, `--size <SIZES>`: the plural takes several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes: `64`, `4KiB`.
    Size,
    /// Lengths of frames: bytes, or the name of a mix: `64`, `imix-csit`.
    Frames,
    /// A whole number, at least 1.
    Count,
    /// A whole number from 0.
    Number,
    /// Any number.
    Real,
    /// A time above zero: `0.2` (seconds), `200ms`.
    Time,
    /// A part of a whole: `0.05`, `5%`.
    Share,
    /// Events a second: `5000`, `2.5M`.
    Rate,
    /// One of these words.
    Word(Vec<String>),
    /// Text of any form: a name, SQL.
    Text,
    /// Another machine.
    Address,
    /// A path.
    File,
    /// On or off.
    Switch,
}

impl Parameter {
    /// The parameter that a flag is; `None` for one without a type, as `--help` is.
    pub fn of(flag: &Arg) -> Option<Self> {
        let kind = Kind::of(flag)?;
        let default = flag.get_default_values().first();
        let id = flag.get_id().as_str();
        Some(Self {
            name: flag.get_long().unwrap_or(id).replace('-', "_"),
            id: id.to_owned(),
            meaning: flag.get_help().map(ToString::to_string).unwrap_or_default(),
            default: match kind {
                Kind::Switch => Some("false".to_owned()),
                _ => default.map(|value| value.to_string_lossy().into_owned()),
            },
            kind,
            range: Range::default(),
            is_required: flag.is_required_set(),
            place: match flag.is_positional() {
                true => Place::Position,
                false => Place::Flag,
            },
        })
    }

    /// The words of a command line that give the parameter this value.
    pub fn words(&self, value: &str) -> Vec<String> {
        match (self.place, &self.kind) {
            (Place::Position, _) => vec![value.to_owned()],
            (Place::Flag, Kind::Switch) if value == "true" => vec![self.flag()],
            (Place::Flag, Kind::Switch) => Vec::new(),
            // In one word, so that a value may begin with a hyphen.
            (Place::Flag, _) => vec![format!("{}={value}", self.flag())],
        }
    }

    fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// A value of a box as a command line has it.
    ///
    /// # Errors
    /// A sentence that says what is expected instead.
    pub fn text(&self, value: &Value) -> Result<String, String> {
        let text = match value {
            Value::Bool(value) if self.kind == Kind::Switch => value.to_string(),
            Value::Bool(value) => self
                .kind
                .word_of(*value)
                .ok_or_else(|| format!("{value} is not {}", self.kind.expected()))?,
            Value::Number(value) if self.kind.takes_numbers() => value.to_string(),
            Value::String(value) if self.kind != Kind::Switch => value.clone(),
            other => return Err(format!("{other} is not {}", self.kind.expected())),
        };
        self.kind.check(&text)?;
        if self.range != Range::default() {
            let values = self.kind.values(&text)?;
            let mut numbers = values.iter().filter_map(Value::as_f64);
            numbers.try_for_each(|number| self.range.check(number))?;
        }
        Ok(text)
    }

    /// The JSON Schema of the parameter in a box: a value, or a list of values that are measured one after the other.
    pub fn schema(&self) -> Value {
        let mut one = self.kind.schema();
        self.range.narrow(&mut one);
        let mut schema = json!({
            "description": self.meaning,
            "oneOf": [one, { "type": "array", "items": one, "minItems": 1 }],
        });
        if let Some(default) = &self.default {
            schema["default"] = self.kind.value(default);
        }
        schema
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "size",
            Self::Frames => "frames",
            Self::Count => "count",
            Self::Number => "number",
            Self::Real => "real",
            Self::Time => "time",
            Self::Share => "share",
            Self::Rate => "rate",
            Self::Word(words) => return f.write_str(&words.join("|")),
            Self::Text => "text",
            Self::Address => "address",
            Self::File => "file",
            Self::Switch => "switch",
        })
    }
}

impl Range {
    fn check(self, value: f64) -> Result<(), String> {
        match self {
            Self {
                minimum: Some(minimum),
                ..
            } if value < minimum => Err(format!("{value} is too little; at least {minimum}")),
            Self {
                maximum: Some(maximum),
                ..
            } if value > maximum => Err(format!("{value} is too much; at most {maximum}")),
            _ => Ok(()),
        }
    }

    /// Puts the bounds into the schema of a number, or of a number beside its text.
    fn narrow(self, schema: &mut Value) {
        let number = match schema.get_mut("anyOf") {
            Some(either) => &mut either[0],
            None => schema,
        };
        for (name, bound) in [("minimum", self.minimum), ("maximum", self.maximum)] {
            if let Some(bound) = bound {
                number[name] = whole(bound);
            }
        }
    }
}

/// A number of JSON, without a fraction where there is none.
fn whole(value: f64) -> Value {
    match value.fract() == 0.0 && value.abs() < 9e15 {
        true => Value::from(value as i64),
        false => Value::from(value),
    }
}

impl Kind {
    fn of(flag: &Arg) -> Option<Self> {
        match flag.get_action() {
            ArgAction::SetTrue => return Some(Self::Switch),
            ArgAction::Set | ArgAction::Append => {}
            _ => return None,
        }
        let words = flag.get_possible_values();
        if !words.is_empty() {
            let words = words.iter().map(|word| word.get_name().to_owned());
            return Some(Self::Word(words.collect()));
        }
        Some(match flag.get_value_names()?.first()?.as_str() {
            "SIZE" | "SIZES" => Self::Size,
            "FRAMES" => Self::Frames,
            "COUNT" | "COUNTS" => Self::Count,
            "NUMBER" | "NUMBERS" => Self::Number,
            "REAL" | "REALS" => Self::Real,
            "TIME" | "TIMES" => Self::Time,
            "SHARE" | "SHARES" => Self::Share,
            "RATE" | "RATES" => Self::Rate,
            "YES|NO" => Self::Word(["yes", "no"].map(str::to_owned).into()),
            "NAME" | "NAMES" | "TEXT" | "SQL" | "TRANSPORT" | "PORT" | "never|end|WRITES" => {
                Self::Text
            }
            "ADDRESS" => Self::Address,
            "FILE" | "FOLDER" => Self::File,
            _ => return None,
        })
    }

    /// The word that stands for `true` or `false`, where there are such words.
    fn word_of(&self, value: bool) -> Option<String> {
        let Self::Word(words) = self else {
            return None;
        };
        let pairs = [["false", "true"], ["no", "yes"]];
        let fitting = pairs.iter().map(|pair| pair[usize::from(value)]);
        let mut fitting = fitting.filter(|word| words.iter().any(|known| known == word));
        fitting.next().map(str::to_owned)
    }

    /// True if its values are numbers.
    pub fn takes_numbers(&self) -> bool {
        !matches!(
            self,
            Self::Word(_) | Self::Text | Self::Address | Self::File | Self::Switch
        )
    }

    /// Whether `text` is one value of the kind, or several with commas between.
    fn check(&self, text: &str) -> Result<(), String> {
        let every = |parse: fn(&str) -> Result<(), String>| text.split(',').try_for_each(parse);
        match self {
            Self::Size => args::sizes(text).map(drop),
            Self::Frames => every(|part| match is_name(part) {
                true => Ok(()),
                false => args::sizes(part).map(drop),
            }),
            Self::Count => args::counts(text).map(drop),
            Self::Number => args::numbers(text).map(drop),
            Self::Real => every(|part| match part.trim().parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(()),
                _ => Err(format!("`{part}` is not a number")),
            }),
            Self::Time => args::durations(text).map(drop),
            Self::Share => every(|part| match part.trim() {
                "1" | "1.0" | "100%" => Ok(()),
                part => args::share(part).map(drop),
            }),
            Self::Rate => args::rates(text).map(drop),
            Self::Word(words) if !words.iter().any(|word| word == text) => {
                Err(format!("`{text}` is not {}", self.expected()))
            }
            Self::Word(_) | Self::Text | Self::Address | Self::File | Self::Switch => Ok(()),
        }
    }

    /// What is expected, for an error.
    fn expected(&self) -> String {
        match self {
            Self::Size => "a size (64, \"4KiB\")".to_owned(),
            Self::Frames => "bytes of a frame (64), or a mix (\"imix-csit\")".to_owned(),
            Self::Count => "a count (1, 2, 3 …)".to_owned(),
            Self::Number => "a whole number (0, 1, 2 …)".to_owned(),
            Self::Real => "a number".to_owned(),
            Self::Time => "a time (0.2 for seconds, \"200ms\")".to_owned(),
            Self::Share => "a share (0.05, \"5%\")".to_owned(),
            Self::Rate => "a rate (5000, \"2.5M\")".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Text => "a text".to_owned(),
            Self::Address => "an address".to_owned(),
            Self::File => "a path".to_owned(),
            Self::Switch => "true or false".to_owned(),
        }
    }

    /// The text of a command line as a JSON value: bytes, seconds and shares as numbers.
    pub fn value(&self, text: &str) -> Value {
        if *self == Self::Switch {
            return (text == "true").into();
        }
        if !self.takes_numbers() {
            return text.into();
        }
        let known = match self {
            Self::Size | Self::Frames => args::size(text).ok().map(Value::from),
            Self::Time => args::duration(text)
                .ok()
                .map(|time| time.as_secs_f64().into()),
            Self::Share if text == "100%" => Some(1.0.into()),
            Self::Share => args::share(text).ok().map(Value::from),
            Self::Rate => args::rate(text).ok().map(Value::from),
            _ => None,
        };
        if let Some(known) = known {
            return known;
        }
        match (text.parse::<u64>(), text.parse::<f64>()) {
            (Ok(whole), _) => whole.into(),
            (_, Ok(real)) => real.into(),
            _ => text.into(),
        }
    }

    /// Whether all that `text` stands for is among `wanted`, however either is spelled: `4KiB` is `4096`, `200ms` is `0.2`, `5%` is
    /// `0.05`, `true` is `yes`.
    ///
    /// # Errors
    /// As the check of a value, where `wanted` has a text that is none of this kind.
    pub fn is_among(&self, text: &str, wanted: &[String]) -> Result<bool, String> {
        let mut known = Vec::new();
        for wanted in wanted {
            known.extend(self.values(wanted)?);
        }
        let own = self.values(text)?;
        Ok(own
            .iter()
            .all(|own| known.iter().any(|known| is_same(own, known))))
    }

    /// The values of a text with commas between them.
    fn values(&self, text: &str) -> Result<Vec<Value>, String> {
        let mut values = Vec::new();
        for part in text.split(',').map(str::trim) {
            let switch = match part {
                "true" | "yes" => Some(true),
                "false" | "no" => Some(false),
                _ => None,
            };
            if let Some(word) = switch.and_then(|switch| self.word_of(switch)) {
                values.push(word.into());
                continue;
            }
            match (self, switch) {
                (Self::Switch, Some(switch)) => values.push(switch.into()),
                (Self::Switch, None) => {
                    return Err(format!("`{part}` is not {}", self.expected()));
                }
                _ => {
                    self.check(part)?;
                    let single = self.single(part)?;
                    values.extend(single.iter().map(|text| self.value(text)));
                }
            }
        }
        Ok(values)
    }

    /// The kind that a plug-in's manifest names; `None` for another word. Words have a list of their own.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "size" => Self::Size,
            "count" => Self::Count,
            "number" => Self::Number,
            "real" => Self::Real,
            "time" => Self::Time,
            "share" => Self::Share,
            "rate" => Self::Rate,
            "text" => Self::Text,
            "file" => Self::File,
            "switch" => Self::Switch,
            _ => return None,
        })
    }

    fn schema(&self) -> Value {
        let or_text = |number: Value| json!({ "anyOf": [number, { "type": "string" }] });
        match self {
            Self::Size | Self::Frames => or_text(json!({ "type": "integer", "minimum": 0 })),
            Self::Count => or_text(json!({ "type": "integer", "minimum": 1 })),
            Self::Number => or_text(json!({ "type": "integer", "minimum": 0 })),
            Self::Real => or_text(json!({ "type": "number" })),
            Self::Time => or_text(json!({
                "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": args::DURATION_S_MAX,
            })),
            Self::Share => or_text(json!({ "type": "number", "minimum": 0, "maximum": 1 })),
            Self::Rate => or_text(json!({ "type": "number", "exclusiveMinimum": 0 })),
            Self::Word(words) => json!({ "enum": words }),
            Self::Text | Self::Address | Self::File => json!({ "type": "string" }),
            Self::Switch => json!({ "type": "boolean" }),
        }
    }

    /// The single values that `text` stands for: a range or a list of numbers is several, everything else one.
    ///
    /// # Errors
    /// As the check of a value.
    pub fn single(&self, text: &str) -> Result<Vec<String>, String> {
        let texts = |values: args::List<u64>| values.iter().map(ToString::to_string).collect();
        match self {
            Self::Size => args::sizes(text).map(texts),
            Self::Count => args::counts(text).map(texts),
            Self::Frames => {
                let parts = text.split(',').map(str::trim);
                let each = parts.map(|part| match is_name(part) {
                    true => Ok(vec![part.to_owned()]),
                    false => args::sizes(part).map(texts),
                });
                each.collect::<Result<Vec<_>, _>>().map(|all| all.concat())
            }
            Self::Share | Self::Rate | Self::Real => {
                Ok(text.split(',').map(|part| part.trim().to_owned()).collect())
            }
            _ => Ok(vec![text.to_owned()]),
        }
    }
}

/// True of the name of a mix of frames, which begins with a letter.
fn is_name(text: &str) -> bool {
    text.trim().starts_with(char::is_alphabetic)
}

/// Returns true if two values are one; 70 % of one is 0.7, whatever the last digit of the product.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-12 * one.abs().max(other.abs()),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_same_however_it_is_spelled() {
        let switches = Kind::Word(["yes", "no"].map(str::to_owned).into());
        for (kind, text, wanted) in [
            (Kind::Size, "4096", "4KiB"),
            (Kind::Size, "64,1KiB", "1024,64"),
            (Kind::Size, "256", "64..1024"),
            (Kind::Frames, "64,imix-csit", "imix-csit,64..128"),
            (Kind::Time, "200ms", "0.2"),
            (Kind::Share, "0.7", "70%"),
            (Kind::Share, "1", "100%"),
            (Kind::Rate, "2.5M", "2500000"),
            (Kind::Real, "1", "1.0"),
            (Kind::Switch, "true", "yes"),
            (switches.clone(), "yes", "true"),
            (Kind::Text, "cpu/best,pool", "pool,cpu/best"),
        ] {
            let wanted: Vec<String> = wanted.split(',').map(str::to_owned).collect();
            assert_eq!(kind.is_among(text, &wanted), Ok(true), "{text} {wanted:?}");
        }
        for (kind, text, wanted) in [
            (Kind::Size, "4096", "4000"),
            // Only a part of what the test measures is wanted.
            (Kind::Size, "64,1KiB", "64"),
            (Kind::Time, "200ms", "200"),
            (Kind::Frames, "imix-trex", "imix-csit,64"),
            (Kind::Switch, "false", "true"),
            (switches, "no", "true"),
            (Kind::Text, "4KiB", "4096"),
        ] {
            let came = kind.is_among(text, &[wanted.to_owned()]);
            assert_eq!(came, Ok(false), "{text} {wanted}");
        }
        for (kind, wanted) in [
            (Kind::Size, "4K"),
            (Kind::Count, "0"),
            (Kind::Switch, "perhaps"),
        ] {
            assert!(
                kind.is_among("1", &[wanted.to_owned()]).is_err(),
                "{wanted}"
            );
        }
    }
}
