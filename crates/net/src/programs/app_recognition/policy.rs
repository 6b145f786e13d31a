//! What is done with packets, by what their flows are: [`Policy`].

use std::fmt;

use crate::recognition::{Application, Applications, Evidence, Label, Protocol};

/// What is done with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// It is sent back, and nothing else: by [`send_back`](super::send_back), if there is this stage.
    #[default]
    Back,
    /// It is hashed, headers and all.
    Hash,
    /// Its payload is compressed.
    Compress,
    /// It is dropped.
    Drop,
    /// It goes on as it came, and nothing else.
    Pass,
}

impl Action {
    /// All of them, by their numbers.
    pub const ALL: [Self; 5] = [
        Self::Back,
        Self::Hash,
        Self::Compress,
        Self::Drop,
        Self::Pass,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Back => "back",
            Self::Hash => "hash",
            Self::Compress => "compress",
            Self::Drop => "drop",
            Self::Pass => "pass",
        }
    }

    pub(super) fn of(number: u32) -> Self {
        let known = Self::ALL.get(number as usize);
        known.copied().unwrap_or_default()
    }
}

/// An action for each kind of flow. Of several lines that fit the first in this order counts: application, rule, protocol, all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    applications: Vec<(Application, Action)>,
    rule: Option<Action>,
    /// By the protocols' numbers.
    protocols: Vec<Option<Action>>,
    undecided: Option<Action>,
    other: Action,
    text: String,
}

/// Why a policy cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A part is not of the form `kind=action`.
    #[error("\"{0}\" is no line of a policy; lines look like tls=hash")]
    Line(String),
    /// There is no such action.
    #[error("\"{0}\" is no action; there are back, hash, compress, drop and pass")]
    Action(String),
    /// There is no such kind of flow.
    #[error(
        "\"{0}\" is no kind of flow: the name of an application or of a protocol, or rule, undecided, other"
    )]
    Kind(String),
    /// A kind has two actions.
    #[error("\"{0}\" has two actions")]
    Twice(String),
}

impl Policy {
    /// Reads `kind=action` pairs with commas between them. A kind is the name of one of `applications` or of a [`Protocol`]; `rule`, which is all flows that a rule
    /// decided; `undecided`, the packets of flows without a verdict; or `other`, whatever has no line of its own. Without `other` these are sent back.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn read(text: &str, applications: &Applications) -> Result<Self, PolicyError> {
        let mut policy = Self {
            applications: Vec::new(),
            rule: None,
            protocols: vec![None; Protocol::ALL.len()],
            undecided: None,
            other: Action::Back,
            text: text.to_owned(),
        };
        let mut other = None;
        for line in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let (kind, name) = (line.split_once('=')).ok_or(PolicyError::Line(line.into()))?;
            let action = Action::ALL.into_iter().find(|action| action.name() == name);
            let action = action.ok_or_else(|| PolicyError::Action(name.into()))?;
            let protocol = Protocol::ALL.iter().position(|it| it.name() == kind);
            let before = match (kind, applications.named(kind), protocol) {
                ("rule", ..) => policy.rule.replace(action),
                ("undecided", ..) => policy.undecided.replace(action),
                ("other", ..) => other.replace(action),
                (_, _, Some(at)) => policy.protocols[at].replace(action),
                (_, Some(application), None) => {
                    let mut known = policy.applications.iter();
                    let before = known.find(|(of, _)| *of == application);
                    let before = before.map(|(_, action)| *action);
                    policy.applications.push((application, action));
                    before
                }
                _ => return Err(PolicyError::Kind(kind.into())),
            };
            if before.is_some() {
                return Err(PolicyError::Twice(kind.into()));
            }
        }
        policy.other = other.unwrap_or_default();
        Ok(policy)
    }

    /// The action for a packet of a flow with this label; without one the flow is undecided.
    #[inline]
    pub fn action(&self, label: Option<Label>) -> Action {
        let Some(label) = label else {
            return self.undecided.unwrap_or(self.other);
        };
        if !self.applications.is_empty()
            && let Some(application) = label.application
            && let Some((_, action)) = self.applications.iter().find(|(of, _)| *of == application)
        {
            return *action;
        }
        if label.evidence == Evidence::Rule {
            return self.rule.unwrap_or(self.other);
        }
        let of_protocol = self.protocols.get(label.protocol as usize);
        of_protocol.copied().flatten().unwrap_or(self.other)
    }
}

/// As it was read.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(protocol: Protocol, evidence: Evidence, application: Option<&str>) -> Option<Label> {
        let list = Applications::built_in();
        Some(Label {
            protocol,
            evidence,
            application: application.map(|name| list.named(name).expect("in the list")),
        })
    }

    #[test]
    fn the_closest_line_counts() {
        let list = Applications::built_in();
        let text = "tls=hash, youtube=drop,rule=compress,undecided=drop,other=back,http=compress";
        let policy = Policy::read(text, &list).expect("a policy");
        let action =
            |protocol, evidence, application| policy.action(label(protocol, evidence, application));
        use Evidence::{Http, Port, Rule, Tls};
        assert_eq!(action(Protocol::Tls, Tls, None), Action::Hash);
        assert_eq!(action(Protocol::Tls, Tls, Some("youtube")), Action::Drop);
        assert_eq!(action(Protocol::Tls, Tls, Some("gmail")), Action::Hash);
        assert_eq!(action(Protocol::Http, Http, None), Action::Compress);
        assert_eq!(action(Protocol::Unknown, Rule, None), Action::Compress);
        assert_eq!(action(Protocol::Tls, Rule, None), Action::Compress);
        assert_eq!(action(Protocol::Ssh, Port, None), Action::Back);
        assert_eq!(policy.action(None), Action::Drop);
        assert_eq!(policy.to_string(), text);
        let empty = Policy::read("", &list).expect("a policy");
        assert_eq!(empty.action(None), Action::Back);
        for (number, action) in Action::ALL.into_iter().enumerate() {
            assert_eq!(
                (action as usize, Action::of(number as u32)),
                (number, action)
            );
        }
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        let list = Applications::built_in();
        for (text, error) in [
            ("tls", PolicyError::Line("tls".into())),
            ("tls=burn", PolicyError::Action("burn".into())),
            ("tsl=hash", PolicyError::Kind("tsl".into())),
            ("tls=hash,tls=back", PolicyError::Twice("tls".into())),
            ("gmail=hash,gmail=back", PolicyError::Twice("gmail".into())),
            ("other=hash,other=back", PolicyError::Twice("other".into())),
        ] {
            assert_eq!(Policy::read(text, &list), Err(error));
        }
    }
}
