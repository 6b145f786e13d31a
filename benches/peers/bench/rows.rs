//! What is compared, and what ratio is wanted.

/// One operator on one shape of input.
pub(crate) struct Row {
    /// As in the registry.
    pub(crate) operator: &'static str,
    /// Its parameters, as on the command line.
    pub(crate) parameters: &'static str,
    /// Bytes of user data of an item.
    pub(crate) len: usize,
    /// Items of a batch.
    pub(crate) count: usize,
    /// What is counted.
    pub(crate) unit: Unit,
    /// How many times the best peer's speed is wanted.
    pub(crate) target: f64,
    /// Routes of a generated list, where the operator has one.
    pub(crate) routes: Option<usize>,
}

/// What a speed counts.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// Bytes of user data.
    Bytes,
    /// Items.
    Items,
    /// Parts of an item, of so many bytes each: lookups, tuples.
    Parts(usize),
}

/// What is wanted where nothing is said.
const LEVEL: f64 = 0.95;

const fn row(operator: &'static str, parameters: &'static str, len: usize, count: usize) -> Row {
    Row {
        operator,
        parameters,
        len,
        count,
        unit: Unit::Bytes,
        target: LEVEL,
        routes: None,
    }
}

impl Row {
    const fn wanted(mut self, target: f64) -> Self {
        self.target = target;
        self
    }

    const fn counting(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    const fn routes(mut self, routes: usize) -> Self {
        self.routes = Some(routes);
        self
    }
}

/// A hash function's rows: short and packet-sized messages in batches, one long one.
const fn hash(operator: &'static str) -> [Row; 4] {
    [
        row(operator, "", 64, 256),
        row(operator, "", 256, 64),
        row(operator, "", 1024, 64),
        row(operator, "", 16_384, 1),
    ]
}

/// A coder's rows.
const fn coder(operator: &'static str, parameters: &'static str) -> [Row; 2] {
    [
        row(operator, parameters, 1024, 64),
        row(operator, parameters, 65_536, 1),
    ]
}

/// A cipher's rows: short and packet-sized items in batches, pages of memory and disk.
const fn cipher(operator: &'static str, parameters: &'static str) -> [Row; 4] {
    [
        row(operator, parameters, 64, 256),
        row(operator, parameters, 256, 128),
        row(operator, parameters, 1500, 64),
        row(operator, parameters, 16_384, 8),
    ]
}

/// An erasure code's rows: blocks of one line and of a page in batches, one item of blocks of 64 KiB; ten blocks each.
const fn erasure(operator: &'static str, parameters: &'static str) -> [Row; 3] {
    [
        row(operator, parameters, 10 * 64, 64),
        row(operator, parameters, 10 * 4096, 4),
        row(operator, parameters, 10 * 65_536, 1),
    ]
}

/// Lookups: so many addresses that each is met anew when it comes again.
const fn lookups(operator: &'static str, keys: &'static str, target: f64) -> Row {
    let (bytes, routes) = match operator.as_bytes() {
        b"lpm4" => (4, 1_000_000),
        _ => (16, 200_000),
    };
    row(operator, keys, bytes << 19, 1)
        .counting(Unit::Parts(bytes))
        .routes(routes)
        .wanted(target)
}

/// Tuples to hash.
const fn tuples(form: &'static str, bytes: usize, target: f64) -> Row {
    row("toeplitz", form, bytes * 256, 1)
        .counting(Unit::Parts(bytes))
        .wanted(target)
}

/// Operations with a public key: a few short messages.
const fn signatures(operator: &'static str, parameters: &'static str) -> Row {
    row(operator, parameters, 64, 4).counting(Unit::Items)
}

/// All of them.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = vec![
        tuples("form=ipv4-ports", 12, 3.0),
        tuples("form=ipv4", 8, LEVEL),
        tuples("form=ipv6", 32, LEVEL),
        tuples("form=ipv6-ports", 36, LEVEL),
        row("checksum", "form=plain", 20, 256)
            .counting(Unit::Items)
            .wanted(3.0),
        row("checksum", "form=plain", 40, 256)
            .counting(Unit::Items)
            .wanted(3.0),
        row("checksum", "form=plain", 64, 256),
        row("checksum", "form=plain", 256, 64),
        row("checksum", "form=plain", 1500, 16).wanted(1.6),
        row("checksum", "form=plain", 1500, 1).wanted(1.6),
        row("checksum", "form=plain", 16_384, 1),
        row("crc32c", "", 64, 256).wanted(2.0),
        row("crc32c", "", 256, 64),
        row("crc32c", "", 1500, 16).wanted(1.7),
        row("crc32c", "", 65_536, 1).wanted(1.4),
        row("crc32", "", 64, 256),
        row("crc32", "", 256, 64),
        row("crc32", "", 1500, 16).wanted(1.5),
        row("crc32", "", 65_536, 1),
        row("crc16-t10dif", "", 64, 256),
        row("crc16-t10dif", "", 512, 64),
        row("crc16-t10dif", "", 4096, 8),
        row("crc16-t10dif", "", 65_536, 1),
        row("crc-combine", "crc=crc32", 16 * 256, 1).counting(Unit::Parts(16)),
        row("copy", "mode=cached", 64, 256).wanted(1.0),
        row("copy", "mode=cached", 256, 64).wanted(1.0),
        row("copy", "mode=cached", 1500, 16).wanted(1.0),
        row("copy", "mode=cached", 65_536, 1).wanted(1.0),
        row("copy", "mode=streaming", 128 << 20, 1).wanted(1.5),
        row("strcmp", "", 64, 256),
        row("strcmp", "", 1024, 64),
        row("strcat", "", 64, 256),
        row("strcat", "", 1024, 64),
        lookups("lpm4", "keys=random", 3.0),
        lookups("lpm4", "keys=zipf", 3.0),
        lookups("lpm4", "keys=route-weighted", 3.0),
        lookups("lpm6", "keys=random", 1.3),
        lookups("lpm6", "keys=zipf", 1.3),
        lookups("lpm6", "keys=route-weighted", 1.3),
        row("segmentation", "mss=1448,mode=descriptor", 60_000, 4).wanted(4.0),
        row("segmentation", "mss=1448,mode=copy", 60_000, 4).wanted(3.0),
        row("fragmentation", "mtu=1500", 8000, 16),
        row("reassembly", "", 8000, 16),
    ];
    for name in [
        "md5",
        "sha1",
        "sha256",
        "sha512",
        "hmac-md5",
        "hmac-sha1",
        "hmac-sha256",
        "hmac-sha512",
    ] {
        rows.extend(hash(name).map(|row| match (row.operator, row.len) {
            ("sha256", 1024) => row.wanted(1.3),
            _ => row,
        }));
    }
    for bits in ["bits=128", "bits=256"] {
        for name in [
            "aes-gcm",
            "aes-gcm-decrypt",
            "aes-ctr",
            "aes-cbc",
            "aes-cbc-decrypt",
            "aes-xts",
            "aes-xts-decrypt",
        ] {
            rows.extend(cipher(name, bits));
        }
    }
    for parameters in [
        "level=1,format=raw",
        "level=6,format=raw",
        "level=9,format=raw",
    ] {
        rows.extend(coder("deflate", parameters));
    }
    rows.extend(coder("inflate", "format=raw"));
    for name in ["lz4", "unlz4", "snappy", "unsnappy"] {
        rows.extend(coder(name, ""));
    }
    rows.extend(erasure("erasure-encode", "data=10,parity=4"));
    for missing in ["missing=0", "missing=0+3"] {
        rows.extend(erasure("erasure-recover", missing));
    }
    for padding in [
        "bits=2048,padding=pkcs1",
        "bits=2048,padding=pss",
        "bits=3072,padding=pkcs1",
        "bits=4096,padding=pkcs1",
    ] {
        rows.push(signatures("rsa-sign", padding));
        rows.push(signatures("rsa-verify", padding));
    }
    for bits in ["bits=2048", "bits=3072", "bits=4096"] {
        rows.push(signatures("rsa-encrypt", bits));
        rows.push(signatures("rsa-decrypt", bits));
    }
    for curve in ["curve=p256", "curve=p384"] {
        rows.push(signatures("ecdsa-sign", curve));
        rows.push(signatures("ecdsa-verify", curve));
    }
    // More traffic than caches hold, so that an automaton meets what it has not seen.
    for set in ["set=ips", "set=url", "set=q13"] {
        for (len, count) in [(64, 16_384), (256, 4096), (1500, 1024)] {
            rows.push(row("rxpmatch", set, len, count));
        }
    }
    rows.push(signatures("dsa-sign", ""));
    rows.push(signatures("dsa-verify", ""));
    rows
}
