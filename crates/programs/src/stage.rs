//! What a check has at hand: a folder, addresses, free ports, and commands in their places.

use crate::case::{Fault, expect};
use crate::command::Cmd;
use crate::interrupt;
use crate::mode::Role;
use crate::place::Place;
use std::cell::{Cell, RefCell};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a check has at hand.
pub(crate) struct Stage<'a> {
    place: &'a Place,
    /// Of this check alone.
    directory: PathBuf,
    /// Of the whole run: what takes long to make is made once.
    shared: &'a Path,
    deadline: Instant,
    /// Less work for the same answer.
    pub(crate) quick: bool,
    commands: Cell<u32>,
    ports: RefCell<Vec<u16>>,
}

impl<'a> Stage<'a> {
    /// A stage in an empty folder.
    pub(crate) fn new(
        place: &'a Place,
        directory: PathBuf,
        shared: &'a Path,
        deadline: Instant,
        quick: bool,
    ) -> Result<Self, Fault> {
        std::fs::create_dir_all(&directory)?;
        Ok(Self {
            place,
            directory,
            shared,
            deadline,
            quick,
            commands: Cell::new(0),
            ports: RefCell::default(),
        })
    }

    /// A command of what is checked.
    pub(crate) fn server(&self, words: &[&str]) -> Cmd {
        self.command(self.place.wrapping.words(Role::Server), words)
    }

    /// A command of who calls, or of a second server that is not what is checked.
    pub(crate) fn client(&self, words: &[&str]) -> Cmd {
        self.command(self.place.wrapping.words(Role::Client), words)
    }

    /// A command that has nothing to do with the network.
    pub(crate) fn plain(&self, words: &[&str]) -> Cmd {
        self.command(Vec::new(), words)
    }

    fn command(&self, wrapping: Vec<String>, words: &[&str]) -> Cmd {
        let number = self.commands.get();
        self.commands.set(number.wrapping_add(1));
        let program = words.first().and_then(|word| word.rsplit('/').next());
        let name = format!("{number:03}-{}", program.unwrap_or("none"));
        Cmd::new(wrapping, words, self.directory.join(name), self.deadline)
    }

    /// Looks until something is there.
    pub(crate) fn wait_for<T>(
        &self,
        what: &str,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, Fault> {
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if Instant::now() > self.deadline || interrupt::came() {
                return Err(format!("waited in vain for {what}").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Until the program that runs as `pid` listens on a port of a loopback address. A client that
    /// looks for it before it listens anywhere, and asks the kernel after, would find the kernel's
    /// side only. (Elsewhere there is no such side.)
    pub(crate) fn wait_for_listener(&self, pid: i32, host: &str, port: &str) -> Result<(), Fault> {
        match host.starts_with("127.") {
            true => self.wait_for("the port", || listens(pid, port).then_some(())),
            false => Ok(()),
        }
    }

    /// The address of what is checked.
    pub(crate) fn host(&self) -> &'static str {
        self.place.wrapping.address(Role::Server)
    }

    /// The address of who calls.
    pub(crate) fn client_host(&self) -> &'static str {
        self.place.wrapping.address(Role::Client)
    }

    /// A port that nobody has, and that this check was not given before.
    pub(crate) fn port(&self) -> Result<String, Fault> {
        let mut given = self.ports.borrow_mut();
        loop {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let port = listener.local_addr()?.port();
            if !given.contains(&port) {
                given.push(port);
                return Ok(port.to_string());
            }
        }
    }

    /// A path in the folder of this check.
    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// Writes a file of this check.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<String, Fault> {
        std::fs::write(self.directory.join(name), text)?;
        Ok(self.path(name))
    }

    /// Something that takes long to make, made once in a run: the path of a file or folder.
    pub(crate) fn once(
        &self,
        name: &str,
        make: impl FnOnce(&str) -> Result<(), Fault>,
    ) -> Result<String, Fault> {
        let path = self.shared.join(name);
        let text = path.display().to_string();
        if !path.exists() {
            let half = format!("{text}.half");
            make(&half)?;
            std::fs::rename(half, &path)?;
        }
        Ok(text)
    }

    /// Fails unless two files hold the same bytes.
    pub(crate) fn same(&self, one: &str, other: &str) -> Result<(), Fault> {
        let compared = self.plain(&["cmp", one, other]).run()?;
        expect(compared.status.success(), || {
            format!("other bytes: {} {}", compared.stdout, compared.stderr)
        })
    }
}

/// A file of our own that programs run: its path.
pub(crate) fn peer(name: &str) -> String {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    home.join("peers").join(name).display().to_string()
}

/// Whether there is a listener on the port at the kernel of the process's name space.
fn listens(pid: i32, port: &str) -> bool {
    let all = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let port = port.parse::<u16>().map(|port| format!(":{port:04X}"));
    let is_it = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ends = |text: &&str| port.as_ref().is_ok_and(|port| text.ends_with(port));
        // (0A: LISTEN)
        words.get(1).is_some_and(ends) && words.get(3) == Some(&"0A")
    };
    all.lines().any(is_it)
}
