//! Applications by the names of their servers: a list of domains, of which the longest that a name ends with decides.

use std::num::NonZeroU16;
use std::sync::{Arc, LazyLock};

use dpb_core::random::SplitMix64;

/// An application, by its number in a list. Zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Application(NonZeroU16);

impl Application {
    pub(super) fn number(self) -> u16 {
        self.0.get()
    }

    pub(super) fn of(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(Self)
    }
}

/// Why a list cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A line has not three words.
    #[error(
        "line {0}: a domain, an application and a category are wanted, with blanks between them"
    )]
    Words(usize),
    /// A domain is none.
    #[error(
        "line {0}: \"{1}\" is no domain: labels of letters, digits, \"-\" and \"_\", with dots between them"
    )]
    Domain(usize, String),
    /// A domain is there twice.
    #[error("line {0}: \"{1}\" is in the list already")]
    Twice(usize, String),
    /// An application has two categories.
    #[error("line {0}: \"{1}\" has another category above")]
    Category(usize, String),
    /// There are more applications than numbers.
    #[error("line {0}: more than 65535 applications")]
    Many(usize),
}

/// Applications with their domains.
#[derive(Debug)]
pub struct Applications {
    /// Name and category of each, from number 1.
    named: Vec<(Box<str>, Box<str>)>,
    /// A table of domains: twice as many places as there are domains at least, a power of two.
    places: Vec<Place>,
    /// The bytes of all domains.
    text: Vec<u8>,
    seed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    hash: u64,
    start: u32,
    len: u16,
    application: u16,
}

/// The list that comes with dpb: well-known services and the domains that their owners name.
static BUILT_IN: LazyLock<Arc<Applications>> = LazyLock::new(|| {
    let list = Applications::read(include_str!("applications.txt"), 0);
    Arc::new(list.unwrap_or_else(|why| unreachable!("a test reads this list: {why}")))
});

/// Names longer than this are looked at from their end only.
const NAME_BYTES_MAX: usize = 255;

impl Applications {
    /// The list that comes with dpb.
    pub fn built_in() -> Arc<Self> {
        BUILT_IN.clone()
    }

    /// Reads a list: in each line a domain, an application, a category, with blanks between them; lines that are empty or begin with `#` are passed
    /// over. A domain stands for itself and for all below it. `seed` keeps whoever chooses names from knowing which of them meet.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn read(text: &str, seed: u64) -> Result<Self, ListError> {
        let lines = || {
            let lines = text.lines().enumerate();
            lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        };
        let mut list = Self {
            named: Vec::new(),
            places: vec![Place::default(); (lines().count() * 2 + 1).next_power_of_two()],
            text: Vec::new(),
            seed: SplitMix64::new(seed).next_u64(),
        };
        for (at, line) in lines() {
            let at = at + 1;
            let words: Vec<_> = line.split_whitespace().collect();
            let [domain, name, category] = words[..] else {
                return Err(ListError::Words(at));
            };
            if !is_domain(domain) {
                return Err(ListError::Domain(at, domain.into()));
            }
            let application = list.application(at, name, category)?;
            list.insert(at, domain, application)?;
        }
        Ok(list)
    }

    fn application(&mut self, line: usize, name: &str, category: &str) -> Result<u16, ListError> {
        let known = self.named.iter().position(|(known, _)| **known == *name);
        if let Some(known) = known {
            return match *self.named[known].1 == *category {
                true => Ok(known as u16 + 1),
                false => Err(ListError::Category(line, name.into())),
            };
        }
        self.named.push((name.into(), category.into()));
        u16::try_from(self.named.len()).map_err(|_| ListError::Many(line))
    }

    fn insert(&mut self, line: usize, domain: &str, application: u16) -> Result<(), ListError> {
        let hash = self.hash(domain.as_bytes());
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        while self.places[at].application != 0 {
            if self.domain(self.places[at]) == domain.as_bytes() {
                return Err(ListError::Twice(line, domain.into()));
            }
            at = (at + 1) & mask;
        }
        self.places[at] = Place {
            hash,
            start: self.text.len() as u32,
            len: domain.len() as u16,
            application,
        };
        self.text.extend_from_slice(domain.as_bytes());
        Ok(())
    }

    fn domain(&self, place: Place) -> &[u8] {
        let start = place.start as usize;
        &self.text[start..start + usize::from(place.len)]
    }

    /// The hash of a name as the search builds it up, from its end.
    fn hash(&self, name: &[u8]) -> u64 {
        let bytes = name.iter().rev();
        bytes.fold(self.seed, |hash, byte| mixed(hash, *byte))
    }

    /// The application that a server's name is of: that of the longest domain in the list which is the name or ends it. Case does not count.
    pub fn of(&self, name: &[u8]) -> Option<Application> {
        let name = name.strip_suffix(b".").unwrap_or(name);
        let name = &name[name.len().saturating_sub(NAME_BYTES_MAX)..];
        let mut found = 0;
        let mut hash = self.seed;
        for (at, byte) in name.iter().enumerate().rev() {
            if *byte == b'.' {
                found = self.look_up(hash, &name[at + 1..]).unwrap_or(found);
            }
            hash = mixed(hash, byte.to_ascii_lowercase());
        }
        found = self.look_up(hash, name).unwrap_or(found);
        Application::of(found)
    }

    #[inline(always)]
    fn look_up(&self, hash: u64, domain: &[u8]) -> Option<u16> {
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let place = self.places[at];
            if place.application == 0 {
                return None;
            }
            if place.hash == hash && self.domain(place).eq_ignore_ascii_case(domain) {
                return Some(place.application);
            }
            at = (at + 1) & mask;
        }
    }

    /// An application's name, if it is of this list.
    pub fn name(&self, application: Application) -> &str {
        let named = self.named.get(usize::from(application.number()) - 1);
        named.map_or("?", |(name, _)| name)
    }

    /// Its category.
    pub fn category(&self, application: Application) -> &str {
        let named = self.named.get(usize::from(application.number()) - 1);
        named.map_or("?", |(_, category)| category)
    }

    /// The application with this name.
    pub fn named(&self, name: &str) -> Option<Application> {
        let at = self.named.iter().position(|(known, _)| **known == *name)?;
        Application::of(at as u16 + 1)
    }

    /// The number of applications.
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}

#[inline(always)]
fn mixed(hash: u64, byte: u8) -> u64 {
    // The high bits depend on all that came before; the table takes low ones.
    let mixed = (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// Labels of what domains are made of, in lower case.
fn is_domain(text: &str) -> bool {
    let is_part = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    text.len() <= 253
        && (text.split('.'))
            .all(|label| (1..=63).contains(&label.len()) && label.bytes().all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(list: &Applications, name: &str) -> Option<String> {
        let application = list.of(name.as_bytes())?;
        Some(format!(
            "{} {}",
            list.name(application),
            list.category(application)
        ))
    }

    #[test]
    fn the_list_that_comes_along_can_be_read() {
        let list = Applications::read(include_str!("applications.txt"), 3).expect("valid");
        assert!(list.len() > 60);
        assert_eq!(
            named(&list, "rr5---sn-4g5e6nz7.GoogleVideo.com").as_deref(),
            Some("youtube video")
        );
        assert_eq!(
            named(&list, "mail.google.com.").as_deref(),
            Some("gmail mail")
        );
        assert_eq!(named(&list, "google.com").as_deref(), Some("google search"));
        assert_eq!(named(&list, "notgoogle.com"), None);
        assert_eq!(named(&list, ""), None);
    }

    #[test]
    fn the_longest_domain_decides_as_a_search_through_all_of_them_says() {
        let text = "com any x\nexample.com example web\nb.example.com deep web\nco.uk uk x\n";
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
        let list = Applications::read(text, 7).expect("valid");
        let labels = ["com", "example", "b", "co", "uk", "x-example", ""];
        let mut names = vec![String::new()];
        for _ in 0..4 {
            names = (names.iter())
                .flat_map(|name| labels.map(|label| format!("{label}.{name}")))
                .chain(labels.map(str::to_owned))
                .collect();
        }
        for name in names {
            let trimmed = name.strip_suffix('.').unwrap_or(&name);
            let fits = |domain: &str| {
                let front = trimmed.strip_suffix(domain);
                front.is_some_and(|front| front.is_empty() || front.ends_with('.'))
            };
            let best = lines.iter().filter(|line| fits(line[0]));
            let best = best.max_by_key(|line| line[0].len()).map(|line| line[1]);
            let found = list.of(name.as_bytes()).map(|found| list.name(found));
            assert_eq!(found, best, "{name}");
        }
    }

    #[test]
    fn a_broken_list_is_refused_with_its_line() {
        let error = |text: &str| Applications::read(text, 0).expect_err("broken");
        assert_eq!(error("# x\n\na.com one"), ListError::Words(3));
        assert_eq!(error("A.com one x"), ListError::Domain(1, "A.com".into()));
        assert_eq!(error("a..com one x"), ListError::Domain(1, "a..com".into()));
        assert_eq!(
            error("a.com one x\na.com two x"),
            ListError::Twice(2, "a.com".into())
        );
        assert_eq!(
            error("a.com one x\nb.com one y"),
            ListError::Category(2, "one".into())
        );
    }
}
