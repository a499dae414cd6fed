//! Network namespaces and links in them, made for one test and removed with it.

use gannet::{Host, HostBuilder};
use gannet_drivers::interface::{Interface, Offload};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The kernel's address on the link.
pub(crate) const KERNEL: &str = "10.90.0.1";
/// Gannet's.
pub(crate) const GANNET: &str = "10.90.0.2";
/// Longest wait for anything; reached only when something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Says why and returns true when the test cannot run.
pub(crate) fn not_root() -> bool {
    let other = !rustix::process::geteuid().is_root();
    if other {
        println!("skipped: namespaces and packet sockets need root; try: sudo");
    }
    other
}

/// A network namespace, removed at the end.
pub(crate) struct Namespace {
    pub(crate) name: String,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Namespace {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gannet-kernel-{}-{number}", std::process::id());
        ip(&["netns", "add", &name]);
        let namespace = Namespace { name };
        namespace.set("ipv6/conf/default/disable_ipv6", "1");
        namespace.ip("link set lo up");
        namespace
    }

    /// Runs `f` in a thread inside the namespace: what it opens belongs there.
    pub(crate) fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.name)).unwrap();
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                f()
            });
            match inside.join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// `ip -n NAME ...`
    pub(crate) fn ip(&self, line: &str) {
        let words: Vec<&str> = ["-n", &self.name]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        ip(&words);
    }

    /// Sets a `net.` variable of the kernel, by its path below `/proc/sys/net`. False when this
    /// kernel has none of that name.
    pub(crate) fn set(&self, variable: &str, value: &str) -> bool {
        self.run(|| std::fs::write(format!("/proc/sys/net/{variable}"), value).is_ok())
    }

    /// Waits until the interface can carry frames: until then the kernel throws them away.
    pub(crate) fn wait_for_carrier(&self, interface: &str) {
        let interface = self.run(|| Interface::open(interface).unwrap());
        wait("the carrier", || interface.is_running().unwrap());
    }

    /// Leaves checksums and segmentation to the stacks on both sides of `interface`.
    pub(crate) fn switch_offloads_off(&self, interface: &str) {
        let interface = self.run(|| Interface::open(interface).unwrap());
        for offload in [
            Offload::TcpSegmentation,
            Offload::LateSegmentation,
            Offload::ReceiveMerging,
            Offload::SendChecksum,
        ] {
            interface.set_offload(offload, false).unwrap();
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

/// Runs the `ip` command.
pub(crate) fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args:?}: {error}");
}

/// Waits until `f` says so.
pub(crate) fn wait(what: &str, mut f: impl FnMut() -> bool) {
    let start = Instant::now();
    while !f() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sets a flag when it goes, so that a thread that waits for the flag ends when the test fails,
/// too.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How Gannet is joined to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// A packet socket on one end of a virtual Ethernet, the kernel's addresses on the other.
    Veth,
    /// A TAP device.
    Tap,
}

impl Join {
    pub(crate) const ALL: [Join; 2] = [Join::Veth, Join::Tap];

    /// The largest MTU that the kernel allows.
    pub(crate) fn mtu_max(self) -> u32 {
        match self {
            Join::Veth => 65_535,
            Join::Tap => 65_521,
        }
    }
}

/// A Gannet host and the kernel on one link: [`GANNET`] and [`KERNEL`] in one /24.
pub(crate) struct Lan {
    pub(crate) host: Host,
    /// Where the kernel's end of the link is, called `far`.
    pub(crate) kernel: Namespace,
    /// Where Gannet's end is: an interface `near` without addresses. None with TAP.
    pub(crate) near: Option<Namespace>,
}

impl Lan {
    pub(crate) fn new(join: Join, mtu: u32) -> Lan {
        Lan::with(join, mtu, |builder| builder)
    }

    /// With settings of the host.
    pub(crate) fn with(
        join: Join,
        mtu: u32,
        settings: impl FnOnce(HostBuilder) -> HostBuilder + Send,
    ) -> Lan {
        let kernel = Namespace::new();
        let own = format!("{GANNET}/24");
        match join {
            Join::Veth => {
                let near = Namespace::new();
                veth((&near, "near"), (&kernel, "far"), mtu);
                kernel.ip(&format!("addr add {KERNEL}/24 dev far"));
                let builder = settings(Host::builder().packet("near", &own));
                let host = near.run(|| builder.build().unwrap());
                Lan {
                    host,
                    kernel,
                    near: Some(near),
                }
            }
            Join::Tap => {
                let builder = settings(Host::builder().mtu(mtu).tap("far", &own));
                let host = kernel.run(|| builder.build().unwrap());
                kernel.ip(&format!("addr add {KERNEL}/24 dev far"));
                kernel.ip("link set far up");
                kernel.wait_for_carrier("far");
                Lan {
                    host,
                    kernel,
                    near: None,
                }
            }
        }
    }

    /// A listener of the kernel's, and its address.
    pub(crate) fn kernel_listener(&self) -> (TcpListener, String) {
        let listener = self.kernel.run(|| TcpListener::bind((KERNEL, 0)).unwrap());
        let address = listener.local_addr().unwrap().to_string();
        (listener, address)
    }

    /// A listener of Gannet's on `port`.
    pub(crate) fn gannet_listener(&self, port: u16) -> gannet::TcpListener {
        gannet::TcpListener::bind(&self.host, (GANNET, port)).unwrap()
    }

    /// A connection of the kernel's to Gannet's `port`.
    pub(crate) fn kernel_connect(&self, port: u16) -> std::io::Result<std::net::TcpStream> {
        self.kernel
            .run(|| std::net::TcpStream::connect((GANNET, port)))
    }

    /// A connection that Gannet opened: Gannet's end, and the kernel's.
    pub(crate) fn pair(&self) -> (gannet::TcpStream, std::net::TcpStream) {
        let (listener, address) = self.kernel_listener();
        let ours = gannet::TcpStream::connect(&self.host, address.as_str()).unwrap();
        let (theirs, from) = listener.accept().unwrap();
        assert_eq!(from, ours.local_addr().unwrap());
        theirs.set_read_timeout(Some(PATIENCE)).unwrap();
        theirs.set_write_timeout(Some(PATIENCE)).unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        ours.set_write_timeout(Some(PATIENCE)).unwrap();
        (ours, theirs)
    }

    /// A datagram socket of the kernel's.
    pub(crate) fn kernel_datagrams(&self) -> UdpSocket {
        let socket = self.kernel.run(|| UdpSocket::bind((KERNEL, 0)).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

/// A virtual Ethernet between two namespaces, up on both sides.
pub(crate) fn veth(first: (&Namespace, &str), second: (&Namespace, &str), mtu: u32) {
    let ((a, x), (b, y)) = (first, second);
    a.ip(&format!(
        "link add {x} mtu {mtu} type veth peer name {y} mtu {mtu} netns {}",
        b.name
    ));
    a.ip(&format!("link set {x} up"));
    b.ip(&format!("link set {y} up"));
    a.wait_for_carrier(x);
    b.wait_for_carrier(y);
}
