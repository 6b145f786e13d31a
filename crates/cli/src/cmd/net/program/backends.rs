//! The backend of each operator of a program: [`Backends`].

use std::fmt;
use std::str::FromStr;

/// The backend where none is asked for.
pub const USUAL: &str = "cpu/best";

/// Names of backends: one for all operators, and others for some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backends {
    usual: String,
    own: Vec<(String, String)>,
}

impl Backends {
    /// The backend for the operator of this name.
    pub fn of(&self, operator: &str) -> &str {
        let own = self.own.iter().find(|(of, _)| of == operator);
        own.map_or(&self.usual, |(_, backend)| backend)
    }

    /// The backend for all operators, if it is another one than the usual.
    pub fn asked(&self) -> Option<&str> {
        (self.usual != USUAL).then_some(&self.usual)
    }

    /// The operators that have a backend of their own.
    pub fn operators(&self) -> impl Iterator<Item = &str> {
        self.own.iter().map(|(operator, _)| operator.as_str())
    }
}

/// Names with commas between them; `OPERATOR=NAME` is for one operator. An operator's name has no slash, and a backend's own commas and equals signs stand behind one.
impl FromStr for Backends {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut usual, mut own) = (None, Vec::new());
        for name in crate::backends::names(text)?.iter() {
            match name.split_once('=') {
                Some((operator, backend)) if !operator.contains(['/', ':']) => {
                    if own.iter().any(|(of, _)| of == operator) {
                        return Err(format!("two backends for {operator}"));
                    }
                    own.push((operator.to_owned(), backend.to_owned()));
                }
                _ if usual.is_some() => {
                    return Err(format!(
                        "{name}: a second backend for all operators; OPERATOR=NAME is for one"
                    ));
                }
                _ => usual = Some(name.clone()),
            }
        }
        Ok(Self {
            usual: usual.unwrap_or_else(|| USUAL.to_owned()),
            own,
        })
    }
}

impl fmt::Display for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.usual)?;
        let mut own = self.own.iter();
        own.try_for_each(|(operator, backend)| write!(f, ",{operator}={backend}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_may_have_a_backend_of_its_own() {
        let backends: Backends = "pool/2,lpm6=cpu/portable,aes-gcm=sim/lanes=2,job_ns=500"
            .parse()
            .expect("three");
        let of = ["lpm4", "lpm6", "aes-gcm"].map(|operator| backends.of(operator));
        assert_eq!(of, ["pool/2", "cpu/portable", "sim/lanes=2,job_ns=500"]);
        assert_eq!(backends.asked(), Some("pool/2"));
        assert_eq!(backends.to_string().parse(), Ok(backends));
        let one: Backends = "lpm4=cpu/portable".parse().expect("one");
        assert_eq!(
            (one.of("lpm4"), one.of("lpm6")),
            ("cpu/portable", "cpu/best")
        );
        assert_eq!(one.asked(), None);
        for wrong in [
            "cpu/best,pool/2",
            "lpm4=cpu/best,lpm4=pool/2",
            "",
            "cpu/best,",
        ] {
            wrong.parse::<Backends>().expect_err(wrong);
        }
    }
}
