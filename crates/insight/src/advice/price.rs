//! Money and watts, from figures that the user gives: dpb knows no prices.

use serde::Deserialize;

/// The user's figures.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The currency, as it is printed.
    pub currency: String,
    /// A host core for an hour, in the currency.
    pub core_hour: f64,
    /// The device for an hour.
    pub device_hour: f64,
    /// Watts of a busy host core above an idle one.
    #[serde(default)]
    pub core_watts: f64,
    /// Watts of the device while it works, above those without it.
    #[serde(default)]
    pub device_watts: f64,
}

impl Prices {
    /// Reads a TOML file's text.
    ///
    /// # Errors
    /// The error in it, in words.
    pub fn read(text: &str) -> Result<Self, String> {
        let prices: Self = toml::from_str(text).map_err(|why| why.to_string())?;
        let figures = [
            ("core_hour", prices.core_hour),
            ("device_hour", prices.device_hour),
            ("core_watts", prices.core_watts),
            ("device_watts", prices.device_watts),
        ];
        match figures
            .iter()
            .find(|(_, value)| !value.is_finite() || *value < 0.0)
        {
            Some((name, value)) => Err(format!("`{name}` is {value}; it is a number from 0")),
            None => Ok(prices),
        }
    }

    /// The worth of freed cores, beside the cost of the device; each figure of the user's is said again.
    pub fn sentence(&self, cores: f64) -> String {
        let Self {
            currency,
            core_hour,
            device_hour,
            core_watts,
            device_watts,
        } = self;
        let money = cores * core_hour - device_hour;
        let watts = cores * core_watts - device_watts;
        format!(
            "{cores:.3} cores at {core_hour} {currency} an hour less a device at {device_hour}: {money:+.4} {currency} an hour; \
             {cores:.3} cores at {core_watts} W less a device of {device_watts} W: {watts:+.2} W"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_echoed_and_joined() {
        let text = "currency = \"EUR\"\ncore_hour = 0.04\ndevice_hour = 0.1\ncore_watts = 5\n";
        let prices = Prices::read(text).expect("prices");
        let said = prices.sentence(4.0);
        assert!(
            said.contains("+0.0600 EUR") && said.contains("+20.00 W"),
            "{said}"
        );
        assert!(
            said.contains("0.04 EUR") && said.contains("at 0.1"),
            "{said}"
        );
        for wrong in [
            "currency = \"EUR\"\ncore_hour = -1\ndevice_hour = 0\n",
            "currency = \"EUR\"\ncore_hour = nan\ndevice_hour = 0\n",
            "currency = \"EUR\"\ncore_hour = 1\n",
            "currency = \"EUR\"\ncore_hour = 1\ndevice_hour = 0\nhour = 1\n",
        ] {
            assert!(Prices::read(wrong).is_err(), "{wrong}");
        }
    }
}
