//! The systems that come with the crate, by name: files of `crates/sim/systems/`.

/// A system that comes with the crate.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The name: that of the file, with its folder.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal)+) => {
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../systems/", $name, ".toml")),
        }),+]
    };
}

/// All of them. Those of `woo-chung/` are the paper's system; see `dumb`.
pub const SHIPPED: &[Shipped] = shipped!(
    "plain" "software" "card" "on-path" "off-path"
    "woo-chung/dumb" "woo-chung/software" "woo-chung/card" "woo-chung/card-hmac" "woo-chung/tls-card" "woo-chung/off-path"
);

impl Shipped {
    /// The system of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        SHIPPED.iter().find(|shipped| shipped.name == name)
    }

    /// A sentence about it: the first line of its file.
    pub fn summary(&self) -> &'static str {
        let first = self.text.lines().next().unwrap_or_default();
        first.trim_start_matches(['#', ' '])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Description;

    #[test]
    fn each_is_a_system_and_says_what_it_is() {
        for shipped in SHIPPED {
            let read = shipped.text.parse::<Description>();
            read.unwrap_or_else(|why| panic!("{}: {why}", shipped.name));
            assert!(
                shipped.summary().ends_with('.'),
                "{}: {}",
                shipped.name,
                shipped.summary()
            );
        }
        assert!(Shipped::find("card").is_some() && Shipped::find("cart").is_none());
    }
}
