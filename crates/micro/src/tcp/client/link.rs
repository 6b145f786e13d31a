//! The way to the server: by which interface this machine reaches it, as the kernel's tables have it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::path::Path;

use crate::tcp::Link;

/// Of a connection.
pub(super) fn of(stream: &TcpStream) -> Link {
    let (Ok(here), Ok(there)) = (stream.local_addr(), stream.peer_addr()) else {
        return Link::Unknown;
    };
    let (here, there) = (here.ip().to_canonical(), there.ip().to_canonical());
    if there.is_loopback() || here == there {
        return Link::Loopback;
    }
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let interface = match there {
        IpAddr::V4(there) => route4(&read("/proc/thread-self/net/route"), there),
        IpAddr::V6(there) => route6(&read("/proc/thread-self/net/ipv6_route"), there),
    };
    let Some(interface) = interface else {
        return Link::Unknown;
    };
    let interface_dir = Path::new("/sys/class/net").join(&interface);
    match (
        interface_dir.exists(),
        interface_dir.join("device").exists(),
    ) {
        (true, true) => Link::Device(interface),
        (true, false) => Link::Virtual(interface),
        // Another namespace's `/sys`.
        (false, _) => Link::Unknown,
    }
}

/// The interface of the longest prefix that holds `there`, in `/proc/net/route`.
fn route4(table: &str, there: Ipv4Addr) -> Option<String> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // As the kernel keeps them: in network order, read as a number of this machine.
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let (to, mask) = (number(1)?.swap_bytes(), number(7)?.swap_bytes());
        let (to, mask) = if cfg!(target_endian = "big") {
            (to.swap_bytes(), mask.swap_bytes())
        } else {
            (to, mask)
        };
        (u32::from(there) & mask == to).then(|| (mask.count_ones(), fields[0].to_owned()))
    });
    longest(routes)
}

/// The same in `/proc/net/ipv6_route`.
fn route6(table: &str, there: Ipv6Addr) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let to = u128::from_str_radix(fields.first()?, 16).ok()?;
        let bits = u32::from_str_radix(fields.get(1)?, 16).ok()?;
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let interface = *fields.last()?;
        let holds = u128::from(there) & mask == to && interface != "lo";
        holds.then(|| (bits, interface.to_owned()))
    });
    longest(routes)
}

fn longest(routes: impl Iterator<Item = (u32, String)>) -> Option<String> {
    let longest = routes.max_by_key(|(bits, _)| *bits);
    longest.map(|(_, interface)| interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        // Of a Linux machine with two interfaces; addresses are little endian there.
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     tmfifo\t0064A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        if cfg!(target_endian = "little") {
            let of = |address| route4(table, address);
            let dpu = Ipv4Addr::new(192, 168, 100, 2);
            assert_eq!(of(dpu).as_deref(), Some("tmfifo"));
            assert_eq!(of(Ipv4Addr::new(10, 0, 0, 1)).as_deref(), Some("eth0"));
            assert_eq!(route4("", dpu), None);
        }
        let table = "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth1\n\
                     00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n\
                     00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";
        let of = |address: &str| route6(table, address.parse().expect("an address"));
        assert_eq!(of("fd00::2").as_deref(), Some("eth1"));
        assert_eq!(of("2001:db8::1").as_deref(), Some("eth0"));
    }
}
