//! What a carrier is told.

use gannet::settings::{Knob, Settings};
use gannet_local::{Geometry, HostId, Network};
use std::io;

/// What a carrier is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Link, address, name of the network, and all other settings.
    pub settings: Settings,
    /// The user whose programs may meet.
    pub uid: u32,
    /// The number of the program: random, never 0.
    pub host: HostId,
    /// Other networks (`10.1.0.0/16`) and the neighbours that lead there.
    pub routes: Vec<(String, String)>,
    /// What the program is called, so that a DHCP server knows it again; may be empty.
    pub name: String,
    /// A process during whose life the carrier stays although no process is carried yet.
    pub guardian: Option<u32>,
}

impl Config {
    /// A carrier of this user's, with a number of its own, on the link that the settings name.
    pub fn new(settings: Settings) -> Config {
        Config {
            settings,
            uid: rustix::process::getuid().as_raw(),
            host: random_number(),
            routes: Vec::new(),
            name: String::new(),
            guardian: None,
        }
    }

    /// The network, as programs find each other in it: its directory is there from now on.
    ///
    /// # Errors
    /// What keeps the directory from being made.
    pub fn network(&self) -> io::Result<Network> {
        Network::open(&self.settings.network())
    }

    pub(crate) fn geometry(&self) -> Geometry {
        let number = |knob| u32::try_from(self.settings.number(knob)).unwrap_or(u32::MAX);
        Geometry {
            slots: number(Knob::Streams),
            ring: number(Knob::StreamBuffer),
        }
        .clamped()
    }
}

/// Random, and not 0.
pub(crate) fn random_number() -> u64 {
    let mut bytes = [0u8; 8];
    let flags = rustix::rand::GetRandomFlags::empty();
    // Without randomness the process and the time still tell programs apart.
    if rustix::rand::getrandom(&mut bytes[..], flags).is_err() {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let pid = u64::from(std::process::id());
        return (pid << 40 ^ now.tv_nsec as u64 ^ (now.tv_sec as u64) << 20) | 1;
    }
    u64::from_ne_bytes(bytes).max(1)
}
