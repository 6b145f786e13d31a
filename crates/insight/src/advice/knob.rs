//! Knobs: the setting of a library that does what advice says.

use super::decision::{Decision, Threshold, Verdict};

/// The lines of settings for a decision over sizes, and for the device's share of a split job, of libraries and kernels that offload this operator. Names and
/// limits are those of their own documents: QATzip's `qatzip.h`, DTO's README, Open vSwitch's `ovs-vswitchd.conf.db(5)`, `ethtool(8)`.
pub fn lines(operator: &str, decision: &Decision, device_share: Option<f64>) -> Vec<String> {
    let threshold = decision.threshold();
    let from = match threshold {
        // Where the device wins for sure: a library that is set to less also moves what is too close to call.
        Threshold::From(_) => threshold.sure().map(|at| at.ceil() as u64),
        _ => None,
    };
    // A switch has no sizes: it is turned where all of them are decided alike.
    let is_on = match decision.everywhere() {
        Some(Verdict::Move) => Some(true),
        Some(Verdict::Stay) => Some(false),
        _ => None,
    };
    let ethtool = |feature: &str, is_on: bool| {
        let word = if is_on { "on" } else { "off" };
        format!("Linux: ethtool -K INTERFACE {feature} {word}")
    };
    let mut lines = Vec::new();
    match (operator, from, is_on) {
        ("deflate" | "lz4", Some(bytes), _) => lines.push(format!(
            "QATzip: input_sz_thrshold = {} (by default QZ_COMP_THRESHOLD_DEFAULT, 1024; at least 128)",
            bytes.max(128)
        )),
        ("copy", Some(bytes), _) => {
            lines.push(format!("DTO: DTO_MIN_BYTES={bytes} (by default 16384)"));
        }
        ("segmentation", _, Some(is_on)) => {
            lines.push(ethtool("tso", is_on));
            lines.push(format!(
                "Open vSwitch in user space: ovs-vsctl set Open_vSwitch . other_config:userspace-tso-enable={is_on} (by default false; read when the daemon starts)"
            ));
        }
        ("checksum" | "checksum-fill", _, Some(is_on)) => lines.push(ethtool("tx", is_on)),
        ("checksum-verify", _, Some(is_on)) => lines.push(ethtool("rx", is_on)),
        _ => {}
    }
    if let ("copy", Some(share)) = (operator, device_share) {
        lines.push(format!("DTO: DTO_CPU_SIZE_FRACTION={:.2}", 1.0 - share));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::interval::Estimate;

    /// A gain that is surely above 1 from the first of these sizes on, and surely below before it.
    fn from(at: f64) -> Decision {
        let gains = [
            (at / 2.0, 0.5),
            (at * 0.999_999, 0.99),
            (at, 1.01),
            (at * 2.0, 2.0),
        ];
        Decision {
            gains: gains
                .map(|(size, gain)| (size, Estimate::exact(gain)))
                .into(),
        }
    }

    fn everywhere(gain: f64) -> Decision {
        Decision {
            gains: [64.0, 4096.0]
                .map(|size| (size, Estimate::exact(gain)))
                .into(),
        }
    }

    #[test]
    fn libraries_that_have_a_knob_get_a_line() {
        assert!(lines("deflate", &from(3000.2), None)[0].contains("input_sz_thrshold = 3001"));
        assert!(lines("deflate", &from(10.0), None)[0].contains("= 128 "));
        let both = lines("copy", &from(20_000.0), Some(0.69));
        assert_eq!(both.len(), 2);
        assert!(both[0].contains("DTO_MIN_BYTES=20000") && both[1].contains("=0.31"));
        assert!(lines("sha256", &from(64.0), None).is_empty());
        assert!(lines("deflate", &everywhere(2.0), None).is_empty());
        // The end of the interval from which on it is sure.
        let gain = |value: f64, arm: f64| Estimate {
            value,
            low: value / arm,
            high: value * arm,
        };
        let wide = Decision {
            gains: vec![
                (1000.0, gain(0.5, 1.1)),
                (2000.0, gain(1.0, 2.0)),
                (8192.0, gain(4.0, 4.0)),
                (16384.0, gain(8.0, 1.1)),
            ],
        };
        assert!(lines("deflate", &wide, None)[0].contains("= 8192 "));
    }

    #[test]
    fn switches_are_turned_where_all_sizes_agree() {
        let on = lines("segmentation", &everywhere(3.0), None);
        assert_eq!(on[0], "Linux: ethtool -K INTERFACE tso on");
        assert!(on[1].contains("userspace-tso-enable=true"));
        let off = lines("segmentation", &everywhere(0.3), None);
        assert!(off[0].ends_with("tso off") && off[1].contains("userspace-tso-enable=false"));
        assert!(lines("segmentation", &from(3000.0), None).is_empty());
        assert!(lines("checksum", &everywhere(2.0), None)[0].ends_with("tx on"));
        assert!(lines("checksum-verify", &everywhere(0.5), None)[0].ends_with("rx off"));
    }
}
