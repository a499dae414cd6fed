//! Two network namespaces with a virtual Ethernet between them.
//!
//! They have no names. Each lives exactly as long as a worker that does nothing but be in it, so
//! that they and the interfaces in them go when the comparison ends, is interrupted or is killed:
//! there is nothing to remove.

use std::net::{IpAddr, Ipv4Addr};

use super::workers::{Launcher, Spot, Worker};
use crate::error::Problem;
use crate::role::Job;

/// Seconds that the namespaces may live: longer than any comparison.
const LIFETIME: f64 = 3_600.0;

/// The interface in the first and in the second namespace.
pub const INTERFACES: [&str; 2] = ["gannet0", "gannet1"];

/// Two namespaces. Dropping them removes them.
#[derive(Debug)]
pub struct Namespaces {
    holders: [Worker; 2],
}

impl Namespaces {
    /// Makes both, with the kernel's defaults for the interfaces: MTU 1,500, all offloads on.
    ///
    /// # Errors
    /// Without the privilege or `ip`: what, why, try.
    pub fn make(launcher: &Launcher) -> Result<Self, Problem> {
        if !rustix::process::geteuid().is_root() {
            let (what, why) = ("cannot measure over a virtual Ethernet", "this needs root");
            return Err(Problem::new(what, why, "sudo gannet compare"));
        }
        let hold = || {
            let mut holder = launcher.start(Spot::default(), LIFETIME, Job::HoldNamespace)?;
            holder.ready()?;
            Ok::<Worker, Problem>(holder)
        };
        let holders = [hold()?, hold()?];
        let made = Self { holders };
        let [first, second] = INTERFACES;
        let [_, far] = made.processes();
        let link = format!("ip link add name {first} type veth peer name {second} netns {far}");
        made.configure(launcher, 0, &[link, address(0), up(first)])?;
        made.configure(launcher, 1, &[address(1), up(second)])?;
        Ok(made)
    }

    /// The processes that hold them.
    pub fn processes(&self) -> [u32; 2] {
        let [first, second] = &self.holders;
        [first.id(), second.id()]
    }

    fn configure(
        &self,
        launcher: &Launcher,
        index: usize,
        commands: &[String],
    ) -> Result<(), Problem> {
        let namespace = self.processes().get(index).copied();
        let words = |line: &String| line.split(' ').map(str::to_owned).collect();
        let job = Job::Commands(commands.iter().map(words).collect());
        launcher
            .start(
                Spot {
                    namespace,
                    ..Spot::default()
                },
                10.0,
                job,
            )?
            .ready()
    }
}

/// The kernel's address in a namespace (a range for measurements, RFC 2544 appendix C.2.2).
pub fn kernel_address(index: usize) -> IpAddr {
    let last = if index == 0 { 1 } else { 2 };
    Ipv4Addr::new(198, 18, 77, last).into()
}

/// Gannet's address in a namespace, beside the kernel's on the same interface.
pub fn gannet_address(index: usize) -> IpAddr {
    let last = if index == 0 { 11 } else { 12 };
    Ipv4Addr::new(198, 18, 77, last).into()
}

fn address(index: usize) -> String {
    let interface = INTERFACES.get(index).copied().unwrap_or_default();
    format!(
        "ip address add {}/24 dev {interface}",
        kernel_address(index)
    )
}

fn up(interface: &str) -> String {
    format!("ip link set {interface} up")
}
