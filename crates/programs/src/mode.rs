//! Over what a program runs, and the words that put it there.

use std::fmt;
use std::path::PathBuf;

/// Over what server and client run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(clap::ValueEnum)]
pub(crate) enum Mode {
    /// The kernel's loopback: proves that the check itself is right.
    Kernel,
    /// Both under `gannet run`, in one network.
    Gannet,
    /// The server under `gannet run` on an interface, the client on the kernel at its far end.
    Veth,
    /// The same with the server on the kernel too: proves the checks, and is what to compare with.
    #[value(name = "kernel-veth")]
    #[serde(rename = "kernel-veth")]
    KernelVeth,
}

impl Mode {
    /// Those of the matrix, in its order.
    pub(crate) const ALL: [Mode; 3] = [Mode::Kernel, Mode::Gannet, Mode::Veth];

    /// The mode whose checks it has.
    pub(crate) fn stands_for(self) -> Mode {
        match self {
            Mode::KernelVeth => Mode::Veth,
            other => other,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Kernel => "kernel",
            Mode::Gannet => "gannet",
            Mode::Veth => "veth",
            Mode::KernelVeth => "kernel-veth",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// Which part a program plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// What is checked: on Gannet wherever there is Gannet.
    Server,
    /// Calls the server. In mode `veth` on the kernel.
    Client,
}

/// How a command is started in its place.
#[derive(Debug, Clone)]
pub(crate) struct Wrapping {
    pub(crate) mode: Mode,
    /// The `gannet` command.
    pub(crate) gannet: PathBuf,
    /// Name of the network, and beginning of the names of what else is made.
    pub(crate) network: String,
    /// Name spaces of the server and the client; none in mode `kernel`.
    pub(crate) spaces: Option<(String, String)>,
    /// The server's interface in mode `veth`.
    pub(crate) interface: String,
}

/// The server's address on the interface of mode `veth`; its prefix is 24 bits long.
pub(crate) const VETH_SERVER: &str = "10.66.0.1";
/// The client's.
pub(crate) const VETH_CLIENT: &str = "10.66.0.2";

impl Wrapping {
    /// The words in front of a command; the only place that knows `gannet run`.
    pub(crate) fn words(&self, role: Role) -> Vec<String> {
        let mut words = Vec::new();
        let run = |more: &[&str]| -> Vec<String> {
            let gannet = self.gannet.display().to_string();
            let all = [gannet.as_str(), "run", "--require"];
            let all = all.iter().chain(more).chain(&["--"]);
            all.map(|word| (*word).to_owned()).collect()
        };
        if let Some((server, client)) = &self.spaces {
            let space = match role {
                Role::Server => server,
                Role::Client => client,
            };
            words.extend(["ip", "netns", "exec", space].map(str::to_owned));
        }
        match (self.mode, role) {
            (Mode::Kernel | Mode::KernelVeth, _) | (Mode::Veth, Role::Client) => {}
            (Mode::Gannet, _) => words.extend(run(&["--net", &self.network])),
            (Mode::Veth, Role::Server) => words.extend(run(&[
                "--link",
                &format!("packet:{}", self.interface),
                "--addr",
                &format!("{VETH_SERVER}/24"),
            ])),
        }
        words
    }

    /// The address of what plays this part.
    pub(crate) fn address(&self, role: Role) -> &'static str {
        match (self.mode, role) {
            (Mode::Veth | Mode::KernelVeth, Role::Server) => VETH_SERVER,
            (Mode::Veth | Mode::KernelVeth, Role::Client) => VETH_CLIENT,
            _ => "127.0.0.1",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapping(mode: Mode) -> Wrapping {
        Wrapping {
            mode,
            gannet: "gannet".into(),
            network: "n".to_owned(),
            spaces: (mode != Mode::Kernel).then(|| ("s".to_owned(), "c".to_owned())),
            interface: "if".to_owned(),
        }
    }

    #[test]
    fn each_mode_has_its_words() {
        let words = |mode, role| wrapping(mode).words(role).join(" ");
        assert_eq!(words(Mode::Kernel, Role::Server), "");
        assert_eq!(
            words(Mode::Gannet, Role::Client),
            "ip netns exec c gannet run --require --net n --"
        );
        assert_eq!(
            words(Mode::Veth, Role::Server),
            "ip netns exec s gannet run --require --link packet:if --addr 10.66.0.1/24 --"
        );
        assert_eq!(words(Mode::Veth, Role::Client), "ip netns exec c");
        assert_eq!(words(Mode::KernelVeth, Role::Server), "ip netns exec s");
    }
}
