//! Knobs: the setting of a library that does what advice says.

use super::decision::Threshold;

/// The lines of settings for a threshold in bytes, and for the device's share of a split job, of libraries that offload this operator. The limits are those of
/// the libraries' own sources: QATzip's `qatzip.h`, DTO's README.
pub fn lines(operator: &str, threshold: &Threshold, device_share: Option<f64>) -> Vec<String> {
    let from = match threshold {
        // Where the device wins for sure: a library that is set to less also moves what is too close to call.
        Threshold::From(_) => threshold.sure().map(|at| at.ceil() as u64),
        _ => None,
    };
    let mut lines = Vec::new();
    match (operator, from) {
        ("deflate" | "lz4", Some(bytes)) => lines.push(format!(
            "QATzip: input_sz_thrshold = {} (by default QZ_COMP_THRESHOLD_DEFAULT, 1024; at least 128)",
            bytes.max(128)
        )),
        ("copy", Some(bytes)) => lines.push(format!("DTO: DTO_MIN_BYTES={bytes} (by default 16384)")),
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
    use crate::advice::decision::Place;

    #[test]
    fn libraries_that_have_a_knob_get_a_line() {
        let from = |at| {
            Threshold::From(Place {
                at,
                low: at,
                high: at,
            })
        };
        assert!(lines("deflate", &from(3000.2), None)[0].contains("input_sz_thrshold = 3001"));
        assert!(lines("deflate", &from(10.0), None)[0].contains("= 128 "));
        let both = lines("copy", &from(20_000.0), Some(0.69));
        assert_eq!(both.len(), 2);
        assert!(both[0].contains("DTO_MIN_BYTES=20000") && both[1].contains("=0.31"));
        assert!(lines("sha256", &from(64.0), None).is_empty());
        assert!(lines("deflate", &Threshold::None, None).is_empty());
        // The end of the interval from which on it is sure.
        let wide = Threshold::From(Place {
            at: 3000.0,
            low: 1000.0,
            high: 8192.0,
        });
        assert!(lines("deflate", &wide, None)[0].contains("= 8192 "));
    }
}
