//! Which network a process in a root has.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use ralph_orchestrator_supervisor::{Network, Root};

use crate::fixture::{require, script};

#[tokio::test]
async fn without_a_network_the_hosts_loopback_is_out_of_reach_and_its_own_works() {
    require(&["bash"], "bash");
    require(&["perl"], "perl");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo yes || echo no");
    let text = format!("bash -c '{connect}'; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '");
    let seen = script(&Root::default(), &text).await;
    let (reached, interfaces) = seen.split_once('\n').unwrap();
    assert_eq!(reached, "no");
    // Some kernels put tunnels that lead nowhere into each namespace.
    assert!(interfaces.lines().any(|name| name == "lo"), "{interfaces}");
    assert!(!interfaces.lines().any(|name| name.starts_with("eth") || name.starts_with("en")));
    let host = Root { network: Network::Host, ..Root::default() };
    assert!(script(&host, &text).await.starts_with("yes\n"));
    let own = "perl -MIO::Socket::INET -e 'my $l = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") or die;
        IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => $l->sockport) or die; print \"own\"'";
    assert_eq!(script(&Root::default(), own).await, "own");
}

#[tokio::test]
async fn a_socket_of_the_host_is_reached_only_where_it_is_mounted() {
    require(&["perl"], "perl");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let connect =
        "perl -MIO::Socket::UNIX -e 'print IO::Socket::UNIX->new($ARGV[0]) ? \"yes\" : \"no\"' ";
    let hidden = script(&Root::default(), &format!("{connect}{}", path.display())).await;
    assert_eq!(hidden, "no");
    let shown = script(&crate::fixture::app(folder.path()), &format!("{connect}/app/socket")).await;
    assert_eq!(shown, "yes");
}

#[tokio::test]
async fn with_the_hosts_network_the_resolvers_configuration_is_there() {
    let host = Root { network: Network::Host, ..Root::default() };
    let there = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    assert_eq!(script(&host, "cat /etc/resolv.conf 2>/dev/null || :").await, there);
}
