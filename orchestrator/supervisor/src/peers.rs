//! Whose process is at the other end of a TCP connection within this machine.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::procfs;

/// The socket at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSocket(u64);

impl PeerSocket {
    /// Finds the socket of the client that is connected to the server; `None` if it is closed already.
    #[must_use]
    pub fn find(client: SocketAddr, server: SocketAddr) -> Option<Self> {
        let wanted = [client, server].map(canonical);
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
        let texts = tables.filter_map(|table| fs::read_to_string(table).ok());
        let found = texts.flat_map(|text| text.lines().filter_map(parse).collect::<Vec<_>>());
        // One that is closed has no inode any more.
        let mut inodes = found.filter(|(ends, inode)| *ends == wanted && *inode > 0);
        inodes.next().map(|(_, inode)| Self(inode))
    }

    /// Returns whether a process below this one has it open, or may have: one that hides its files counts as if it had.
    #[must_use]
    pub fn is_open_below(self, root: i32) -> bool {
        let target = format!("socket:[{}]", self.0);
        let has_it = |pid: i32| match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(entries) => entries.flatten().any(|entry| {
                fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == target.as_str())
            }),
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        };
        procfs::descendants(root).iter().any(|process| !process.zombie && has_it(process.pid))
    }
}

/// An IPv4 address as such, also where a socket for IPv6 has it.
const fn canonical(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// Reads a line of the kernel's table: the two ends of a connection, and the inode of the first one's socket.
fn parse(line: &str) -> Option<([(IpAddr, u16); 2], u64)> {
    let mut fields = line.split_whitespace();
    let ends = [parse_end(fields.nth(1)?)?, parse_end(fields.next()?)?];
    Some((ends, fields.nth(6)?.parse().ok()?))
}

/// Reads an address: words in the order of bytes of this machine, and a port.
fn parse_end(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let words: Vec<[u8; 4]> = (0..ip.len() / 8)
        .map(|word| ip.get(word * 8..word * 8 + 8))
        .map(|word| Some(u32::from_str_radix(word?, 16).ok()?.to_ne_bytes()))
        .collect::<Option<_>>()?;
    let ip = match words.as_slice() {
        [word] => IpAddr::V4(Ipv4Addr::from(*word)),
        [a, b, c, d] => {
            let bytes: [u8; 16] = [*a, *b, *c, *d].concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
// A process of the test's own.
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_socket_is_found_until_it_is_closed_and_in_the_process_that_has_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let own = TcpStream::connect(server).unwrap();
        let (_accepted, client) = listener.accept().unwrap();
        let found = PeerSocket::find(client, server).unwrap();
        let this = i32::try_from(std::process::id()).unwrap();
        assert!(!found.is_open_below(this), "it is this process's own");

        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; read line", server.port());
        let mut child =
            Command::new("bash").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
        let (_accepted_too, below) = listener.accept().unwrap();
        assert!(PeerSocket::find(below, server).unwrap().is_open_below(this));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(PeerSocket::find(below, server), None);
        drop(own);
        assert_eq!(PeerSocket::find(client, server), None);
    }

    #[test]
    fn both_forms_of_addresses_are_read() {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let plain = format!("{}:1E25", word([127, 0, 0, 1]));
        assert_eq!(parse_end(&plain), Some((loopback, 7717)));
        let [zero, ones] = [[0; 4], [0, 0, 255, 255]].map(word);
        let mapped = format!("{zero}{zero}{ones}{}:1E25", word([127, 0, 0, 1]));
        assert_eq!(parse_end(&mapped), Some((loopback, 7717)));
        assert_eq!(parse_end("local_address"), None);
    }
}
