//! What the figures depend on, recorded with them.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::limits::sys;

/// The machine and the programs. What cannot be found out is `unknown`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Model of the processor.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Kernel and its release.
    pub kernel: String,
    /// The kernel's congestion control for new connections.
    pub congestion_control: String,
    /// The kernel's limits of TCP's receive and send buffers: least, first, most.
    pub tcp_rmem: String,
    /// See `tcp_rmem`.
    pub tcp_wmem: String,
    /// Offloads of the loopback interface that are on.
    pub offloads: String,
    /// Gannet's version.
    pub gannet: String,
    /// The commit it was built from.
    pub commit: String,
    /// The compiler.
    pub rustc: String,
    /// Optimised or not.
    pub build: String,
    /// Programs running or waiting to run when the comparison began (one, five and fifteen
    /// minutes).
    pub load_average: String,
}

impl Environment {
    /// Looks around.
    pub fn record() -> Self {
        let unknown = || "unknown".to_owned();
        let system = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let setting =
            |name: &str| first_line(&format!("/proc/sys/net/ipv4/{name}")).unwrap_or_else(unknown);
        let build = if cfg!(debug_assertions) {
            "debug: figures mean nothing"
        } else {
            "release"
        };
        Self {
            cpu: cpu_model().unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: format!("{} {}", text(system.sysname()), text(system.release())),
            congestion_control: setting("tcp_congestion_control"),
            tcp_rmem: setting("tcp_rmem"),
            tcp_wmem: setting("tcp_wmem"),
            offloads: offloads().unwrap_or_else(unknown),
            gannet: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("GANNET_BENCH_COMMIT").map_or_else(unknown, str::to_owned),
            rustc: option_env!("GANNET_BENCH_RUSTC").map_or_else(unknown, str::to_owned),
            build: build.to_owned(),
            load_average: first_line("/proc/loadavg").unwrap_or_else(unknown),
        }
    }
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(
        text.lines()
            .next()?
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    )
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Names of the loopback's offloads that are on. Those of a new virtual Ethernet are on by default.
fn offloads() -> Option<String> {
    let states = sys::offloads("lo").ok()?;
    let on = states.iter().filter(|(_, on)| *on).map(|(name, _)| *name);
    Some(on.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_says_something() {
        let value = serde_json::to_value(Environment::record()).unwrap();
        for (name, value) in value.as_object().unwrap() {
            assert_ne!(value.as_str(), Some(""), "{name}");
        }
        assert!(value["kernel"].as_str().unwrap().starts_with("Linux "));
        assert!(value["cores"].as_u64().unwrap() >= 1);
    }
}
