//! DPUBench's table 5 (§4.2.2): which operators stand for which of six programs, as the paper has it and as dpb can repeat it.

/// A program of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Represented {
    /// The paper's name for it.
    pub program: &'static str,
    /// The paper's names of the operators that stand for it.
    pub operators: &'static [&'static str],
    /// dpb's operators that compute what these names say.
    pub ours: &'static [&'static str],
    /// A program that does such work and can be watched (`dpb characterize --program`), as a command line.
    pub command: &'static str,
}

/// The table. The paper's programs are samples of DPDK and DOCA, of which the text names neither version nor input; the command lines are
/// ours.
#[rustfmt::skip]
pub const TABLE_5: [Represented; 6] = [
    Represented {
        program: "L3fwd",
        operators: &["LPM", "CheckSum", "CRC", "IPSeg", "Toeplitz"],
        ours: &["lpm4", "checksum", "crc32c", "fragmentation", "toeplitz"],
        command: "dpdk-l3fwd",
    },
    Represented {
        program: "IPSec",
        operators: &["LPM", "RSA", "CheckSum", "CRC"],
        ours: &["lpm4", "rsa-sign", "checksum", "crc32c"],
        command: "dpdk-ipsec-secgw",
    },
    Represented {
        program: "File-Compress",
        operators: &["Compress"],
        ours: &["deflate"],
        command: "gzip -c {input}",
    },
    Represented {
        program: "File-Integrity",
        operators: &["SHA256", "SHA1", "MD5"],
        ours: &["sha256", "sha1", "md5"],
        command: "sha256sum {input}",
    },
    Represented {
        program: "IPS",
        operators: &["RXPMatch", "TCPSeg"],
        ours: &["rxpmatch", "segmentation"],
        command: "suricata -r {input}",
    },
    Represented {
        program: "Url-Filter",
        operators: &["RXPMatch"],
        ours: &["rxpmatch"],
        command: "grep -E -c -f rules {input}",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_of_the_paper_has_one_of_ours() {
        let all = TABLE_5
            .iter()
            .flat_map(|row| row.operators.iter().zip(row.ours));
        let mut pairs: Vec<_> = all.collect();
        pairs.sort_unstable();
        pairs.dedup();
        // The same name is the same operator in every row.
        for (at, (name, _)) in pairs.iter().enumerate() {
            assert!(
                !pairs[at + 1..].iter().any(|(other, _)| other == name),
                "{name}"
            );
        }
        assert!(
            TABLE_5
                .iter()
                .all(|row| row.operators.len() == row.ours.len())
        );
    }
}
