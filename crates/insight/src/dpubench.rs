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
    /// The beginnings of command lines that do such work and can be watched (`dpb characterize --program`).
    pub commands: &'static [&'static str],
}

impl Represented {
    /// True if a command line is one of its programs, in whichever folder that is.
    pub fn is_done_by(&self, command: &str) -> bool {
        let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
        let name = program.rsplit('/').next().unwrap_or(program);
        let command = format!("{name} {arguments} ");
        let mut commands = self.commands.iter();
        commands.any(|known| command.starts_with(&format!("{known} ")))
    }
}

/// The table. The paper's programs are samples of DPDK and DOCA, of which the text names neither version nor input; the command lines are
/// ours.
#[rustfmt::skip]
pub const TABLE_5: [Represented; 6] = [
    Represented {
        program: "L3fwd",
        operators: &["LPM", "CheckSum", "CRC", "IPSeg", "Toeplitz"],
        ours: &["lpm4", "checksum", "crc32c", "fragmentation", "toeplitz"],
        commands: &["dpb net forward", "dpdk-l3fwd"],
    },
    Represented {
        program: "IPSec",
        operators: &["LPM", "RSA", "CheckSum", "CRC"],
        ours: &["lpm4", "rsa-sign", "checksum", "crc32c"],
        commands: &["dpb net encrypt", "dpdk-ipsec-secgw"],
    },
    Represented {
        program: "File-Compress",
        operators: &["Compress"],
        ours: &["deflate"],
        commands: &["gzip"],
    },
    Represented {
        program: "File-Integrity",
        operators: &["SHA256", "SHA1", "MD5"],
        ours: &["sha256", "sha1", "md5"],
        commands: &["sha256sum"],
    },
    Represented {
        program: "IPS",
        operators: &["RXPMatch", "TCPSeg"],
        ours: &["rxpmatch", "segmentation"],
        commands: &["dpb net app-recognition", "suricata", "snort"],
    },
    Represented {
        program: "Url-Filter",
        operators: &["RXPMatch"],
        ours: &["rxpmatch"],
        commands: &["grep"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_the_beginning_of_its_command_line() {
        let of = |command: &str| {
            let mut rows = TABLE_5.iter().filter(|row| row.is_done_by(command));
            (rows.next().map(|row| row.program), rows.next().is_none())
        };
        for (command, program) in [
            ("/usr/bin/gzip -c {input}", Some("File-Compress")),
            ("gzip", Some("File-Compress")),
            ("gzipped -c", None),
            ("dpb net forward --port capture:{capture}", Some("L3fwd")),
            ("target/release/dpb net encrypt --seed 1", Some("IPSec")),
            ("dpb net nat44", None),
            ("", None),
        ] {
            assert_eq!(of(command), (program, true), "{command}");
        }
    }

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
