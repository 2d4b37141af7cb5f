//! Network policies.

use std::net::IpAddr;

use super::super::settings::NetworkPolicy;
use super::super::toml_table::{TableReader, TomlText};

/// Reads `network_mode` and `allowed_hosts`; none if neither is there.
pub(super) fn take_network(
    text: &mut TomlText<'_>,
    table: &mut TableReader<'_>,
) -> Option<NetworkPolicy> {
    let words = [
        ("public", NetworkWord::Public),
        ("no-network", NetworkWord::NoNetwork),
        ("allowlist", NetworkWord::Allowlist),
    ];
    let mode = table.take_word(text, "network_mode", &words);
    let hosts = table.take_strings(text, "allowed_hosts");
    let mut allowed = Vec::new();
    for host in hosts.iter().flatten() {
        match normalize_host(host.get_ref()) {
            Some(host) => allowed.push(host),
            None => text.error(
                &host.span(),
                format!(
                    "\"{}\" is no host name, no `*.` and a host name, no address and no range of addresses; URLs, \
                     ports and paths are not taken",
                    host.get_ref()
                ),
            ),
        }
    }
    if mode != Some(NetworkWord::Allowlist) && hosts.is_some_and(|hosts| !hosts.is_empty()) {
        let name = table.name("allowed_hosts");
        text.error(&table.span(), format!("`{name}` needs `network_mode = \"allowlist\"`"));
    }
    Some(match mode? {
        NetworkWord::Public => NetworkPolicy::Public,
        NetworkWord::NoNetwork => NetworkPolicy::NoNetwork,
        NetworkWord::Allowlist => NetworkPolicy::Allowlist(allowed),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NetworkWord {
    Public,
    NoNetwork,
    Allowlist,
}

/// Returns the host in lower case, if it is a name, a name after `*.`, an address or a range.
fn normalize_host(host: &str) -> Option<String> {
    let host = host.trim().to_lowercase();
    let host = host.trim_end_matches('.');
    if let Some((address, bits)) = host.split_once('/') {
        return is_range(address.parse().ok()?, bits.parse().ok()?).then(|| host.to_owned());
    }
    if host.contains(':') {
        return host.parse::<IpAddr>().ok().map(|address| address.to_string());
    }
    let name = host.strip_prefix("*.");
    if name.is_some_and(|name| name.parse::<IpAddr>().is_ok()) {
        return None;
    }
    let is_name = name.unwrap_or(host).split('.').all(is_label);
    is_name.then(|| host.to_owned())
}

/// Whether no bit of the address is set beyond the prefix.
fn is_range(address: IpAddr, bits: u32) -> bool {
    let (value, width) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32_u32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let Some(free) = width.checked_sub(bits) else { return false };
    let mask = 1_u128.checked_shl(free).map_or(u128::MAX, |bit| bit - 1);
    value & mask == 0
}

fn is_label(label: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&label.len())
        && label.bytes().all(is_inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_names_addresses_and_ranges_and_nothing_else() {
        for (host, expected) in [
            ("Example.COM.", Some("example.com")),
            ("*.example.com", Some("*.example.com")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("192.0.2.0/24", Some("192.0.2.0/24")),
            ("2001:DB8:0::1", Some("2001:db8::1")),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("::/0", Some("::/0")),
            ("192.0.2.1/24", None),
            ("192.0.2.0/33", None),
            ("https://example.com", None),
            ("example.com:443", None),
            ("example.com/path", None),
            ("a.*.com", None),
            ("*.192.0.2.1", None),
            ("*.", None),
            ("-a.com", None),
            ("fe80::1%eth0", None),
            ("", None),
        ] {
            assert_eq!(normalize_host(host).as_deref(), expected, "{host}");
        }
    }
}
