//! A value in a JSON file, and where it stands, for errors that name the place.

use serde_json::Value;

use crate::exit::Failure;

/// A value of a box and its path: `tasks[2].parameters.size`.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    file: &'a str,
    path: String,
    pub(super) value: &'a Value,
}

impl<'a> Place<'a> {
    /// The whole of a file.
    pub(super) fn new(file: &'a str, value: &'a Value) -> Self {
        Self {
            file,
            path: String::new(),
            value,
        }
    }

    /// A value that stands for the one under `key`.
    pub(super) fn child(&self, key: &str, value: &'a Value) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self {
            file: self.file,
            path: format!("{}{dot}{key}", self.path),
            value,
        }
    }

    /// The value under `key`, if this is an object that has one.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.as_object()?.get(key)?;
        Some(self.child(key, value))
    }

    /// The value under `key`.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn need(&self, key: &str) -> Result<Self, Failure> {
        self.get(key)
            .ok_or_else(|| self.wrong(&format!("`{key}` is missing")))
    }

    /// Whether this is a list.
    pub(super) fn is_list(&self) -> bool {
        self.value.is_array()
    }

    /// The elements of a list.
    ///
    /// # Errors
    /// If this is none.
    pub(super) fn items(&self) -> Result<Vec<Self>, Failure> {
        let list = self.value.as_array();
        let list = list.ok_or_else(|| self.wrong("a list is expected"))?;
        let item = |(at, value)| Self {
            file: self.file,
            path: format!("{}[{at}]", self.path),
            value,
        };
        Ok(list.iter().enumerate().map(item).collect())
    }

    /// The keys of an object.
    ///
    /// # Errors
    /// If this is none.
    pub(super) fn keys(&self) -> Result<Vec<&'a str>, Failure> {
        let object = self.value.as_object();
        let object = object.ok_or_else(|| self.wrong("an object is expected"))?;
        Ok(object.keys().map(String::as_str).collect())
    }

    /// Sees that this is an object without other keys than `known`.
    ///
    /// # Errors
    /// If it is none, or has another.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Failure> {
        for key in self.keys()? {
            if !known.contains(&key) {
                let known = match known {
                    [] => "there are none".to_owned(),
                    known => format!("there are {}", known.join(", ")),
                };
                return Err(self.wrong(&format!("no key `{key}`; {known}")));
            }
        }
        Ok(())
    }

    /// A text.
    ///
    /// # Errors
    /// If this is none.
    pub(super) fn text(&self) -> Result<String, Failure> {
        let text = self.value.as_str().map(str::to_owned);
        text.ok_or_else(|| self.wrong("a text is expected"))
    }

    /// A whole number, at least `least`.
    ///
    /// # Errors
    /// If this is none.
    pub(super) fn number(&self, least: u64) -> Result<u64, Failure> {
        let number = self.value.as_u64().filter(|&number| number >= least);
        number.ok_or_else(|| self.wrong(&format!("a whole number from {least} on is expected")))
    }

    /// Wrong usage at this place.
    pub(super) fn wrong(&self, why: &str) -> Failure {
        let Self { file, path, .. } = self;
        match path.as_str() {
            "" => Failure::usage(format!("{file}: {why}")),
            path => Failure::usage(format!("{file}: {path}: {why}")),
        }
    }
}
