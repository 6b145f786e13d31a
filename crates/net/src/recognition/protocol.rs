//! What flows are of, and what shows it.

use std::fmt;

/// Declares the protocols with their names.
macro_rules! protocols {
    ($($name:ident $text:literal $doc:literal,)*) => {
        /// The protocol of a flow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Protocol {
            /// None that is known here.
            #[default]
            Unknown,
            $(#[doc = $doc] $name,)*
        }

        impl Protocol {
            /// Each of them.
            pub const ALL: &[Self] = &[Self::Unknown, $(Self::$name,)*];

            /// Its name, in lower case.
            pub fn name(self) -> &'static str {
                match self {
                    Self::Unknown => "unknown",
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

protocols! {
    Tls "tls" "TLS over TCP (RFC 8446), or SSL before it.",
    Dtls "dtls" "DTLS (RFC 9147).",
    Quic "quic" "QUIC (RFC 9000).",
    GoogleQuic "gquic" "QUIC as Google had it before the IETF.",
    Http "http" "HTTP/1 (RFC 9112).",
    Http2 "http2" "HTTP/2 in clear (RFC 9113).",
    Dns "dns" "DNS (RFC 1035).",
    Mdns "mdns" "Multicast DNS (RFC 6762).",
    Llmnr "llmnr" "Link-local multicast name resolution (RFC 4795).",
    NetbiosNames "netbios-ns" "NetBIOS' name service (RFC 1002).",
    NetbiosDatagrams "netbios-dgm" "NetBIOS' datagram service (RFC 1002).",
    Ssh "ssh" "SSH (RFC 4253).",
    Smtp "smtp" "SMTP (RFC 5321).",
    Imap "imap" "IMAP (RFC 9051).",
    Pop3 "pop3" "POP3 (RFC 1939).",
    Ftp "ftp" "FTP's control connection (RFC 959).",
    Irc "irc" "IRC (RFC 2812).",
    Xmpp "xmpp" "XMPP (RFC 6120).",
    Sip "sip" "SIP (RFC 3261).",
    Rtsp "rtsp" "RTSP (RFC 7826).",
    Rtp "rtp" "RTP (RFC 3550).",
    Rtcp "rtcp" "RTCP (RFC 3550).",
    Stun "stun" "STUN and TURN (RFC 8489).",
    Ntp "ntp" "NTP (RFC 5905).",
    Dhcp "dhcp" "DHCP (RFC 2131).",
    Dhcp6 "dhcpv6" "DHCP for IPv6 (RFC 9915).",
    Tftp "tftp" "TFTP (RFC 1350).",
    Snmp "snmp" "SNMP (RFC 3411).",
    Syslog "syslog" "Syslog (RFC 5424).",
    Ssdp "ssdp" "SSDP, UPnP's discovery.",
    Radius "radius" "RADIUS (RFC 2865).",
    Ldap "ldap" "LDAP (RFC 4511).",
    Kerberos "kerberos" "Kerberos (RFC 4120).",
    Smb "smb" "SMB.",
    DceRpc "dcerpc" "DCE's remote procedure calls.",
    Rdp "rdp" "RDP.",
    Vnc "vnc" "VNC (RFC 6143).",
    Telnet "telnet" "Telnet (RFC 854).",
    Socks "socks" "SOCKS (RFC 1928).",
    BitTorrent "bittorrent" "BitTorrent, its distributed table too.",
    Mqtt "mqtt" "MQTT.",
    Amqp "amqp" "AMQP.",
    Coap "coap" "CoAP (RFC 7252).",
    MySql "mysql" "MySQL.",
    PostgreSql "postgresql" "PostgreSQL.",
    MongoDb "mongodb" "MongoDB.",
    Redis "redis" "Redis.",
    Memcached "memcached" "Memcached.",
    SqlServer "tds" "SQL Server's TDS.",
    Rpc "sunrpc" "ONC RPC (RFC 5531), so NFS.",
    Bgp "bgp" "BGP (RFC 4271).",
    WireGuard "wireguard" "WireGuard.",
    OpenVpn "openvpn" "OpenVPN.",
    Ike "ike" "IKE, ISAKMP (RFC 7296).",
    L2tp "l2tp" "L2TP (RFC 2661).",
    Gtp "gtp" "GTP.",
    Vxlan "vxlan" "VXLAN (RFC 7348).",
    Rtmp "rtmp" "RTMP.",
    Git "git" "Git's own protocol.",
    Rsync "rsync" "rsync's daemon.",
    Modbus "modbus" "Modbus over TCP.",
    Dnp3 "dnp3" "DNP3.",
    Diameter "diameter" "Diameter (RFC 6733).",
    Quake "quake" "Games that speak as Quake 3 did.",
    Steam "steam" "Queries of Steam's servers.",
    Teredo "teredo" "IPv6 in UDP (RFC 4380).",
}

impl Protocol {
    /// The one with this number.
    pub(super) fn of(number: u8) -> Self {
        let known = Self::ALL.get(usize::from(number));
        known.copied().unwrap_or(Self::Unknown)
    }

    /// The one that usually has this port of the side that was called, which is a guess.
    pub fn by_port(is_tcp: bool, port: u16) -> Self {
        let both = match port {
            53 => Self::Dns,
            88 => Self::Kerberos,
            111 | 2049 => Self::Rpc,
            389 => Self::Ldap,
            1812 | 1813 => Self::Radius,
            3478 => Self::Stun,
            3868 => Self::Diameter,
            5060 => Self::Sip,
            20000 => Self::Dnp3,
            _ => Self::Unknown,
        };
        if both != Self::Unknown {
            return both;
        }
        match (is_tcp, port) {
            (true, 21) => Self::Ftp,
            (true, 22) => Self::Ssh,
            (true, 23) => Self::Telnet,
            (true, 25 | 587) => Self::Smtp,
            (true, 80 | 8000 | 8008 | 8080 | 3128) => Self::Http,
            (true, 110) => Self::Pop3,
            (true, 135) => Self::DceRpc,
            (true, 139 | 445) => Self::Smb,
            (true, 143) => Self::Imap,
            (true, 179) => Self::Bgp,
            (true, 443 | 465 | 563 | 636 | 853 | 989 | 990 | 993 | 995 | 5061 | 8443) => Self::Tls,
            (true, 502) => Self::Modbus,
            (true, 554 | 8554) => Self::Rtsp,
            (true, 873) => Self::Rsync,
            (true, 1080) => Self::Socks,
            (true, 1194) | (false, 1194) => Self::OpenVpn,
            (true, 1433) => Self::SqlServer,
            (true, 1883) => Self::Mqtt,
            (true, 1935) => Self::Rtmp,
            (true, 3306) => Self::MySql,
            (true, 3389) => Self::Rdp,
            (true, 5222 | 5269) => Self::Xmpp,
            (true, 5432) => Self::PostgreSql,
            (true, 5672) => Self::Amqp,
            (true, 5900..=5909) => Self::Vnc,
            (true, 6379) => Self::Redis,
            (true, 6667) => Self::Irc,
            (true, 6881..=6889) => Self::BitTorrent,
            (true, 9418) => Self::Git,
            (true, 11211) => Self::Memcached,
            (true, 27017) => Self::MongoDb,
            (false, 67 | 68) => Self::Dhcp,
            (false, 69) => Self::Tftp,
            (false, 123) => Self::Ntp,
            (false, 137) => Self::NetbiosNames,
            (false, 138) => Self::NetbiosDatagrams,
            (false, 161 | 162) => Self::Snmp,
            (false, 443) => Self::Quic,
            (false, 500 | 4500) => Self::Ike,
            (false, 514) => Self::Syslog,
            (false, 546 | 547) => Self::Dhcp6,
            (false, 1701) => Self::L2tp,
            (false, 1900) => Self::Ssdp,
            (false, 2123 | 2152) => Self::Gtp,
            (false, 3544) => Self::Teredo,
            (false, 4789) => Self::Vxlan,
            (false, 5353) => Self::Mdns,
            (false, 5355) => Self::Llmnr,
            (false, 5683) => Self::Coap,
            (false, 51820) => Self::WireGuard,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a verdict rests on, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Evidence {
    /// A hello of TLS or DTLS was read.
    Tls,
    /// An Initial packet of QUIC was decrypted, and the hello in it read.
    Quic,
    /// A request of HTTP was read, or of what looks like it.
    Http,
    /// A message of DNS was read.
    Dns,
    /// The first bytes are those of a protocol.
    Bytes,
    /// A rule for payloads matched.
    Rule,
    /// An answer of DNS gave the server's address a name. Nothing is known of the protocol but by its port.
    Name,
    /// The server's port: a guess.
    Port,
    /// Nothing.
    None,
}

impl Evidence {
    const ALL: [Self; 9] = [
        Self::Tls,
        Self::Quic,
        Self::Http,
        Self::Dns,
        Self::Bytes,
        Self::Rule,
        Self::Name,
        Self::Port,
        Self::None,
    ];

    pub(super) fn of(number: u8) -> Self {
        let known = Self::ALL.get(usize::from(number));
        known.copied().unwrap_or(Self::None)
    }

    /// True of evidence in the flow's own bytes.
    pub fn is_inspection(self) -> bool {
        self <= Self::Rule
    }
}
