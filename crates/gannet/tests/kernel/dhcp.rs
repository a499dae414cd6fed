//! An address from dnsmasq, a DHCP server that others use, in a namespace of its own.

use crate::lan::{KERNEL, Namespace, PATIENCE, not_root, veth, wait};
use gannet::{DhcpConfig, Host, UdpSocket};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The server, ended with the test.
struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    /// Gives addresses from 10.90.0.100 on, on the kernel's end of the link. `None`: it is not
    /// installed, which is said.
    fn start(kernel: &Namespace) -> Option<Server> {
        let directory = std::env::temp_dir().join(format!("{}-dhcp", kernel.name));
        std::fs::create_dir_all(&directory).unwrap();
        let path = |name: &str| directory.join(name).display().to_string();
        let log = File::create(directory.join("log")).unwrap();
        let spawned = kernel.run(|| {
            // A user's PATH often lacks the folders of the system's programs.
            let programs = ["/usr/sbin/dnsmasq", "dnsmasq"];
            let spawn = |program: &&str| {
                Command::new(program)
                    .args(["--keep-in-foreground", "--conf-file=/dev/null", "--port=0"])
                    .args(["--interface=far", "--bind-interfaces", "--user=root"])
                    .args(["--dhcp-range=10.90.0.100,10.90.0.110,255.255.255.0,120s"])
                    .args(["--dhcp-option=option:mtu,1400", "--dhcp-authoritative"])
                    .args(["--dhcp-option=option:dns-server,10.90.0.53", "--log-dhcp"])
                    .arg("--log-facility=-")
                    .arg(format!("--dhcp-leasefile={}", path("leases")))
                    .arg(format!("--pid-file={}", path("pid")))
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(log.try_clone().unwrap())
                    .spawn()
                    .ok()
            };
            programs.iter().find_map(spawn)
        });
        let Some(child) = spawned else {
            println!("skipped: no dnsmasq; try: sudo apt-get install dnsmasq-base");
            return None;
        };
        Some(Server { child, directory })
    }

    fn leases(&self) -> String {
        let file = self.directory.join("leases");
        std::fs::read_to_string(file).unwrap_or_default()
    }

    fn log(&self) -> String {
        let mut log = String::new();
        let file = File::open(self.directory.join("log"));
        let _ = file.and_then(|mut file| file.read_to_string(&mut log));
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn quick() -> DhcpConfig {
    DhcpConfig {
        retry_first: Duration::from_millis(400),
        retry_max: Duration::from_secs(2),
        probe_interval: Duration::from_millis(100),
        ..DhcpConfig::default()
    }
}

#[test]
fn dnsmasq_gives_an_address_and_takes_it_back() {
    if not_root() {
        return;
    }
    let (kernel, near) = (Namespace::new(), Namespace::new());
    veth((&near, "near"), (&kernel, "far"), 1500);
    kernel.ip(&format!("addr add {KERNEL}/24 dev far"));
    let Some(server) = Server::start(&kernel) else {
        return;
    };
    let host = near.run(|| {
        let builder = Host::builder().dhcp(quick()).packet("near", "dhcp");
        builder.build().unwrap()
    });
    let lease = host.wait_for_lease(PATIENCE).unwrap_or_else(|error| {
        panic!("{error}\n{}", server.log());
    });
    println!("{lease:?}");
    let first = Ipv4Addr::new(10, 90, 0, 100);
    let last = Ipv4Addr::new(10, 90, 0, 110);
    assert!((first..=last).contains(&lease.address));
    let router: Ipv4Addr = KERNEL.parse().unwrap();
    assert_eq!((lease.prefix_len, lease.server), (24, router));
    assert_eq!(lease.routers, [router]);
    assert_eq!(lease.dns_servers, [Ipv4Addr::new(10, 90, 0, 53)]);
    assert_eq!(lease.mtu, Some(1400));
    let remaining = lease.remaining.unwrap();
    assert!(remaining > Duration::from_secs(60) && remaining <= Duration::from_secs(120));
    assert_eq!(host.addresses(), [IpAddr::V4(lease.address)]);
    assert_eq!(host.leases().len(), 1);
    wait("the server's note", || {
        server.leases().contains(&lease.address.to_string())
    });

    // It works: both ways with the kernel.
    let theirs = kernel.run(|| std::net::UdpSocket::bind((KERNEL, 0)).unwrap());
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    let ours = UdpSocket::bind(&host, (lease.address, 0)).unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    ours.send_to(b"there", theirs.local_addr().unwrap())
        .unwrap();
    let mut buffer = [0; 16];
    let (n, from) = theirs.recv_from(&mut buffer).unwrap();
    assert_eq!(
        (&buffer[..n], from),
        (&b"there"[..], ours.local_addr().unwrap())
    );
    theirs.send_to(b"back", from).unwrap();
    assert_eq!(ours.recv(&mut buffer).unwrap(), 4);

    host.release_leases();
    assert!(host.leases().is_empty() && host.addresses().is_empty());
    wait("the server to take it back", || server.leases().is_empty());
    println!("{}", server.log());
}

#[test]
fn without_a_server_there_is_no_address() {
    if not_root() {
        return;
    }
    let (kernel, near) = (Namespace::new(), Namespace::new());
    veth((&near, "near"), (&kernel, "far"), 1500);
    let host = near.run(|| {
        let builder = Host::builder().dhcp(quick()).packet("near", "dhcp");
        builder.build().unwrap()
    });
    let error = host.wait_for_lease(Duration::from_millis(200)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
    assert!(host.addresses().is_empty());
}
