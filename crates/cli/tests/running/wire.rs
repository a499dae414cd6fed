//! Two network namespaces with a wire between them: a carried program on one side, the kernel on
//! the other.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Removed at the end.
pub(crate) struct Wire {
    /// Where the program runs.
    pub(crate) ours: String,
    /// The kernel's side: 10.56.0.2.
    pub(crate) theirs: String,
    /// The interface in `ours`, without an address: the program takes 10.56.0.1.
    pub(crate) near: String,
    /// The one in `theirs`.
    pub(crate) far: String,
}

impl Wire {
    /// None without the right to make one.
    pub(crate) fn new() -> Option<Wire> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{}", std::process::id(), char::from(b'a' + number as u8));
        let wire = Wire {
            ours: format!("gwo{name}"),
            theirs: format!("gwt{name}"),
            near: format!("gwn{name}"),
            far: format!("gwf{name}"),
        };
        let Wire { ours, theirs, .. } = &wire;
        let made = [format!("netns add {ours}"), format!("netns add {theirs}")];
        let made = made.iter().all(|command| ip(command));
        if !made || !wire.connect() {
            eprintln!("skipped: no right to make network namespaces");
            return None;
        }
        Some(wire)
    }

    /// Makes the interfaces, which are removed together.
    pub(crate) fn connect(&self) -> bool {
        let Wire {
            ours,
            theirs,
            near,
            far,
        } = self;
        let commands = [
            format!("link add {near} netns {ours} type veth peer name {far} netns {theirs}"),
            format!("-n {theirs} addr add 10.56.0.2/24 dev {far}"),
            format!("-n {theirs} link set {far} up"),
            format!("-n {ours} link set {near} up"),
            format!("-n {ours} link set lo up"),
        ];
        commands.iter().all(|command| ip(command))
    }

    /// Switches an interface of ours: `up` or `down`.
    pub(crate) fn switch(&self, to: &str) {
        assert!(ip(&format!("-n {} link set {} {to}", self.ours, self.near)));
    }

    /// The kernel takes the address that the program would have.
    pub(crate) fn address(&self) {
        let Wire { ours, near, .. } = self;
        assert!(ip(&format!("-n {ours} addr add 10.56.0.1/24 dev {near}")));
    }

    /// `ip`, on the kernel's side, with the name of its interface behind `words`.
    pub(crate) fn far(&self, words: &str) -> bool {
        ip(&format!("-n {} {words} {}", self.theirs, self.far))
    }

    /// As [`Wire::far`], on our side.
    pub(crate) fn near(&self, words: &str) -> bool {
        ip(&format!("-n {} {words} {}", self.ours, self.near))
    }

    /// The hardware address of the interface on our side.
    pub(crate) fn mac(&self) -> String {
        let mut command = Wire::inside(&self.ours, &Command::new("cat"));
        command.arg(format!("/sys/class/net/{}/address", self.near));
        let output = command.output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Removes both interfaces.
    pub(crate) fn cut(&self) {
        assert!(ip(&format!("-n {} link del {}", self.ours, self.near)));
    }

    /// `command`, with its variables, in the namespace `name`.
    pub(crate) fn inside(name: &str, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", name]).stdin(Stdio::piped());
        inside.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    /// `gannet run` in our namespace, over the wire.
    pub(crate) fn run(&self, run: &Command) -> Command {
        let mut command = Wire::inside(&self.ours, run);
        let link = format!("packet:{}", self.near);
        command.args(["--link", &link, "--addr", "10.56.0.1/24"]);
        command
    }

    /// A program in Python on the kernel's side.
    pub(crate) fn kernel(&self) -> Command {
        Wire::inside(&self.theirs, &Command::new("env"))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for name in [&self.ours, &self.theirs] {
            ip(&format!("netns del {name}"));
        }
    }
}

/// `ip` with these words; whether it did what they say.
pub(crate) fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}
