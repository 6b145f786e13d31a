//! The boxes that dpb ships.

/// A box that is part of dpb.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The name that `dpb run` takes.
    pub name: &'static str,
    /// The box.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal)+) => {
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../boxes/", $name, ".json")),
        }),+]
    };
}

/// All of them.
pub const SHIPPED: &[Shipped] = shipped!(
    "quick" "host" "dpu" "dpbento" "dpubench" "dpubench-end-to-end" "headroom" "characterize" "rank" "advise" "woo-chung"
    "woo-chung-sensitivity"
);

impl Shipped {
    /// What it measures.
    pub fn description(&self) -> String {
        let value: Option<serde_json::Value> = serde_json::from_str(self.text).ok();
        let description = value
            .as_ref()
            .and_then(|value| value["description"].as_str());
        description.unwrap_or_default().to_owned()
    }
}
