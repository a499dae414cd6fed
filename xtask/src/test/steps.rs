//! The steps of the test command, in order. To add one, add an entry to `ALL`.

use super::needs::Need;
use crate::explain::Explained;
use std::path::Path;
use std::time::Duration;

/// When a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// Always.
    Quick,
    /// Not with `--quick`.
    Slow,
    /// In `cargo xtask ci` only.
    Extra,
}

/// Where a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// One after the other, with nothing beside them that has their priority: clocks judge them.
    First,
    /// Beside those, with low priority: they take what processors are free, and as long as they
    /// need.
    Beside,
}

/// One step: a name for the table, the reason it exists, and what it does.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) why: &'static str,
    pub(super) cost: Cost,
    pub(super) lane: Lane,
    pub(super) needs: &'static [Need],
    pub(super) job: Job,
}

/// What a step does.
pub(super) enum Job {
    /// A task of this program.
    Inside(fn(&Path) -> Result<bool, Explained>),
    /// A run of cargo whose test results are counted.
    Cargo(Cargo),
}

/// A run of cargo.
pub(super) struct Cargo {
    /// Another toolchain than the one of `rust-toolchain.toml`.
    pub(super) toolchain: Option<&'static str>,
    pub(super) arguments: &'static [&'static str],
    /// Folder below `target/`, so that runs with other flags do not rebuild each other's crates,
    /// and the second lane does not replace or lock what the first one runs.
    pub(super) target: Option<&'static str>,
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// After this long something hangs: the run is ended and counts as failed.
    pub(super) limit: Duration,
}

const PLAIN: Cargo = Cargo {
    toolchain: None,
    arguments: &[],
    target: None,
    environment: &[],
    limit: Duration::from_secs(20 * 60),
};

/// In the second lane, where a step may have to wait long for a processor.
const BESIDE: Cargo = Cargo {
    limit: Duration::from_secs(40 * 60),
    ..PLAIN
};

/// Release code without the whole-program optimisation, which costs minutes and finds no fault.
pub(super) const FAST_RELEASE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];

/// Every step.
pub(super) const ALL: &[Step] = &[
    Step {
        name: "tidy",
        why: "formatting, clippy, sizes, structure",
        cost: Cost::Quick,
        lane: Lane::First,
        needs: &[],
        job: Job::Inside(|root| crate::tidy::run(root, &[])),
    },
    Step {
        name: "rfc",
        why: "every quoted RFC sentence stands in specs/; RFC 9293 is obeyed by every label",
        cost: Cost::Quick,
        lane: Lane::First,
        needs: &[],
        job: Job::Inside(|root| crate::rfc::run(root, &[])),
    },
    Step {
        name: "library",
        why: "libgannet_preload.so builds; tests that carry programs need it beside the command",
        cost: Cost::Quick,
        lane: Lane::First,
        needs: &[],
        job: Job::Cargo(Cargo {
            arguments: &["build", "--locked", "-p", "gannet-preload"],
            ..PLAIN
        }),
    },
    Step {
        name: "workspace",
        why: "every test and every documentation example",
        cost: Cost::Quick,
        lane: Lane::First,
        needs: &[],
        job: Job::Cargo(Cargo {
            arguments: &["test", "--workspace", "--locked", "--no-fail-fast"],
            ..PLAIN
        }),
    },
    Step {
        name: "heavy",
        why: "long transfers, many connections, killed peers: in release code",
        cost: Cost::Slow,
        lane: Lane::First,
        needs: &[],
        job: Job::Cargo(Cargo {
            arguments: HEAVY,
            target: Some("heavy"),
            environment: FAST_RELEASE,
            ..PLAIN
        }),
    },
    Step {
        name: "marks",
        why: "floods, a million forged packets, memory of idle connections: in release code",
        cost: Cost::Slow,
        lane: Lane::Beside,
        needs: &[],
        job: Job::Cargo(Cargo {
            arguments: MARKS,
            target: Some("beside"),
            environment: FAST_RELEASE,
            ..BESIDE
        }),
    },
    Step {
        name: "simulation",
        why: "2,000 networks of whole hosts in virtual time, judged after every event",
        cost: Cost::Slow,
        lane: Lane::First,
        needs: &[],
        job: Job::Cargo(Cargo {
            arguments: SIMULATION,
            target: Some("heavy"),
            environment: FAST_RELEASE,
            ..PLAIN
        }),
    },
    Step {
        name: "bugs",
        why: "the simulator finds mistakes made on purpose in the stack",
        cost: Cost::Slow,
        lane: Lane::Beside,
        needs: &[],
        job: Job::Cargo(Cargo {
            arguments: BUGS,
            target: Some("beside"),
            environment: FAST_RELEASE,
            ..BESIDE
        }),
    },
    Step {
        name: "digest",
        why: "the same seed is the same run in debug and release code",
        cost: Cost::Slow,
        lane: Lane::First,
        needs: &[],
        job: Job::Inside(super::digest::compare),
    },
    Step {
        name: "loom",
        why: "every interleaving of the rings' atomics",
        cost: Cost::Slow,
        lane: Lane::Beside,
        needs: &[Need::Text {
            file: "crates/link/Cargo.toml",
            holds: "loom",
        }],
        job: Job::Cargo(Cargo {
            arguments: LOOM,
            target: Some("loom"),
            environment: &[
                ("RUSTFLAGS", "--cfg loom"),
                ("CARGO_PROFILE_RELEASE_LTO", "off"),
                ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
            ],
            ..BESIDE
        }),
    },
    Step {
        name: "miri",
        why: "undefined behaviour in the shared memory code",
        cost: Cost::Slow,
        lane: Lane::Beside,
        needs: &[
            Need::NightlyComponent("miri"),
            Need::NightlyComponent("rust-src"),
        ],
        job: Job::Cargo(Cargo {
            toolchain: Some("nightly"),
            arguments: &[
                "miri",
                "test",
                "-p",
                "gannet-link",
                "--lib",
                "--no-fail-fast",
            ],
            target: Some("miri"),
            ..BESIDE
        }),
    },
    Step {
        name: "fuzz",
        why: "the fuzz targets still build, and read their corpora",
        cost: Cost::Slow,
        lane: Lane::Beside,
        needs: &[Need::File("fuzz/Cargo.toml"), Need::NightlyTool("fuzz")],
        job: Job::Inside(super::corpora::replay),
    },
    Step {
        name: "programs",
        why: "unmodified programs of Debian: on the kernel, over Gannet, and one side of each",
        cost: Cost::Slow,
        lane: Lane::First,
        needs: &[],
        job: Job::Cargo(Cargo {
            arguments: PROGRAMS,
            target: Some("heavy"),
            environment: FAST_RELEASE,
            ..PLAIN
        }),
    },
    Step {
        name: "cases",
        why: "the socket calls of the manual pages: the same carried as on the kernel",
        cost: Cost::Slow,
        lane: Lane::First,
        needs: &[],
        job: Job::Inside(super::carried::cases),
    },
    Step {
        name: "symbols",
        why: "every call with descriptors that programs import is taken, or left for a reason",
        cost: Cost::Slow,
        lane: Lane::First,
        needs: &[],
        job: Job::Inside(super::carried::symbols),
    },
    Step {
        name: "documentation",
        why: "no broken link in the documentation",
        cost: Cost::Slow,
        lane: Lane::Beside,
        needs: &[],
        job: Job::Cargo(Cargo {
            arguments: &["doc", "--workspace", "--no-deps", "--locked"],
            environment: &[("RUSTDOCFLAGS", "-D warnings")],
            ..BESIDE
        }),
    },
    Step {
        name: "library-release",
        why: "libgannet_preload.so in release code, for the step after this",
        cost: Cost::Extra,
        lane: Lane::First,
        needs: &[],
        job: Job::Cargo(Cargo {
            arguments: &["build", "--release", "--locked", "-p", "gannet-preload"],
            ..PLAIN
        }),
    },
    Step {
        name: "release",
        why: "every test again in release code, as users run it",
        cost: Cost::Extra,
        lane: Lane::First,
        needs: &[],
        job: Job::Cargo(Cargo {
            arguments: &[
                "test",
                "--workspace",
                "--release",
                "--locked",
                "--no-fail-fast",
            ],
            ..PLAIN
        }),
    },
];

/// The crates whose `tests/` folder is also run in release code.
const HEAVY: &[&str] = &[
    "test",
    "--release",
    "--locked",
    "--no-fail-fast",
    "-p",
    "gannet",
    "-p",
    "gannet-drivers",
    "--tests",
];

/// Tests whose names begin with `mark_` do more in release code.
const MARKS: &[&str] = &[
    "test",
    "--release",
    "--locked",
    "-p",
    "gannet-stack",
    "--lib",
    "mark_",
    "--",
    // one measures the memory of the whole process
    "--test-threads=1",
];

/// Whole hosts in virtual time.
const SIMULATION: &[&str] = &[
    "run",
    "--release",
    "--locked",
    "-p",
    "gannet-cli",
    "--",
    "sim",
    "run",
    "--seeds",
    "2000",
];

/// The simulator against mistakes made on purpose. Not in the folder `heavy`: with the feature the
/// command is another.
const BUGS: &[&str] = &[
    "run",
    "--release",
    "--locked",
    "-p",
    "gannet-cli",
    "--features",
    "planted-bugs",
    "--",
    "sim",
    "bugs",
];

/// Programs of Debian. The package installs what is missing.
const PROGRAMS: &[&str] = &[
    "run",
    "--release",
    "--locked",
    "-p",
    "gannet-programs",
    "--",
    "--modes=kernel,gannet,veth",
];

/// Loom tests have `loom` in their path.
const LOOM: &[&str] = &[
    "test",
    "-p",
    "gannet-link",
    "--release",
    "--locked",
    "--no-fail-fast",
    "--lib",
    "loom",
];
