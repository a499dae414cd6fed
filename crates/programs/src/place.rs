//! Network name spaces, the interfaces between them, and what their kernel counted.

use crate::case::Fault;
use crate::mode::{Mode, VETH_CLIENT, VETH_SERVER, Wrapping};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the programs of one mode run. Removed with this value.
pub(crate) struct Place {
    pub(crate) wrapping: Wrapping,
    /// Name spaces to remove.
    made: Vec<String>,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Place {
    /// Makes the place of a mode.
    pub(crate) fn new(mode: Mode, gannet: PathBuf) -> Result<Self, Fault> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let network = format!("gp{}-{number}", std::process::id());
        // Names of interfaces have at most 15 bytes.
        let interface = format!("gp{}s", std::process::id());
        let mut place = Place {
            wrapping: Wrapping {
                mode,
                gannet,
                network: network.clone(),
                spaces: None,
                interface,
            },
            made: Vec::new(),
        };
        match mode {
            Mode::Kernel => {}
            Mode::Gannet => {
                place.space(&network)?;
                place.wrapping.spaces = Some((network.clone(), network));
            }
            Mode::Veth => place.pair(&network)?,
            Mode::KernelVeth => {
                place.pair(&network)?;
                let (near, space) = (&place.wrapping.interface, format!("{network}s"));
                ip(&format!("-n {space} addr add {VETH_SERVER}/24 dev {near}"))?;
            }
        }
        Ok(place)
    }

    fn space(&mut self, name: &str) -> Result<(), Fault> {
        if !is_root() {
            let why = "name spaces need root; try: sudo";
            return Err(Fault::LeftOut(why.to_owned()));
        }
        ip(&format!("netns add {name}"))?;
        self.made.push(name.to_owned());
        ip(&format!("-n {name} link set lo up"))
    }

    /// Two name spaces and a virtual cable; only the client's end has an address of the kernel.
    fn pair(&mut self, network: &str) -> Result<(), Fault> {
        let (server, client) = (format!("{network}s"), format!("{network}c"));
        self.space(&server)?;
        self.space(&client)?;
        let near = self.wrapping.interface.clone();
        let far = format!("gp{}c", std::process::id());
        let pair = format!("link add {near} type veth peer name {far} netns {client}");
        ip(&format!("-n {server} {pair}"))?;
        ip(&format!("-n {client} addr add {VETH_CLIENT}/24 dev {far}"))?;
        ip(&format!("-n {client} link set {far} up"))?;
        ip(&format!("-n {server} link set {near} up"))?;
        self.wrapping.spaces = Some((server, client));
        Ok(())
    }

    /// What the server's kernel counted so far; none where others use it too.
    pub(crate) fn traffic(&self) -> Option<Traffic> {
        let (server, _) = self.wrapping.spaces.as_ref()?;
        let cat = ["netns", "exec", server, "cat", "/proc/net/snmp"];
        let output = Command::new("ip").args(cat).output().ok()?;
        Traffic::read(&String::from_utf8_lossy(&output.stdout))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in &self.made {
            if let Err(fault) = ip(&format!("netns del {name}")) {
                eprintln!("{fault:?}");
            }
        }
    }
}

/// What went over the kernel's own transports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Connections opened, without those that were refused.
    connections: u64,
    /// Datagrams sent.
    datagrams: u64,
}

impl Traffic {
    /// `/proc/net/snmp`: for each protocol a line of names and a line of values.
    fn read(text: &str) -> Option<Self> {
        let value = |protocol: &str, name: &str| -> Option<u64> {
            let mut lines = text.lines().filter(|line| line.starts_with(protocol));
            let names = lines.next()?.split_whitespace();
            let values = lines.next()?.split_whitespace();
            let (_, value) = names.zip(values).find(|(it, _)| *it == name)?;
            value.parse().ok()
        };
        Some(Self {
            connections: value("Tcp:", "ActiveOpens")?.wrapping_sub(value("Tcp:", "AttemptFails")?),
            datagrams: value("Udp:", "OutDatagrams")?,
        })
    }

    /// Fails if anything went over the kernel since `before`.
    pub(crate) fn nothing_since(self, before: Self) -> Result<(), Fault> {
        let connections = self.connections.wrapping_sub(before.connections);
        let datagrams = self.datagrams.wrapping_sub(before.datagrams);
        match (connections, datagrams) {
            (0, 0) => Ok(()),
            _ => Err(Fault::Failed(format!(
                "{connections} connections and {datagrams} datagrams went over the kernel"
            ))),
        }
    }
}

/// Whether this process may make name spaces.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn ip(line: &str) -> Result<(), Fault> {
    let output = Command::new("ip").args(line.split(' ')).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {line}: {}", error.trim()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_over_the_kernel_is_seen() {
        let text = |opens: u64| {
            format!(
                "Ip: Forwarding\nIp: 1\nTcp: ActiveOpens AttemptFails\nTcp: {opens} 1\n\
                 Udp: InDatagrams OutDatagrams\nUdp: 5 6\n"
            )
        };
        let before = Traffic::read(&text(3)).expect("both lines");
        assert_eq!(before.nothing_since(before), Ok(()));
        let after = Traffic::read(&text(4)).expect("both lines");
        assert!(after.nothing_since(before).is_err());
        assert_eq!(Traffic::read("Tcp: a\n"), None);
    }
}
