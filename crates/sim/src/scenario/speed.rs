//! The run by which the simulator's speed is measured: one bulk transfer over 10 Mb/s and 50 ms of
//! round trip.

use core::time::Duration;

use gannet_base::Instant;
use gannet_link::{Checksum, Medium};
use gannet_stack::Config;

use super::{HostPlan, Judges, Scenario, Topology, WirePlan};
use crate::address::Family;
use crate::app::{Side, Talk};
use crate::driver::Interface;
use crate::path::Model;

/// 10 Mb/s in bytes per second.
const RATE: u64 = 1_250_000;

impl Scenario {
    /// About `seconds` seconds of bulk transfer.
    pub fn speed(seconds: u64) -> Scenario {
        let mut model = Model {
            rate: Some(RATE),
            delay: Duration::from_millis(25),
            mtu: Some(1500),
            ..Model::default()
        };
        model.queue_bytes = model.bandwidth_delay_product();
        let host = HostPlan {
            interface: Interface {
                medium: Medium::Ip,
                station: [0; 6],
                mtu: 1500,
                checksum: Checksum::Partial,
                ring: 1024,
                holds: false,
                contiguous: true,
                blocks: (16_384, 64),
            },
            config: Config::new([0; 16], 0),
            clock: Instant::from_millis(1000),
            near_wrap: None,
            coalesce: Duration::ZERO,
        };
        // frames that arrive stay where they are when they fill a good part of their block
        let mut receiver = host.clone();
        receiver.interface.blocks = (2048, 512);
        let mut up = Side::sends(seconds * RATE * 1448 / 1500);
        up.chunk = 16 << 10;
        Scenario {
            seed: 1,
            topology: Topology::Direct,
            families: vec![Family::V4],
            hosts: vec![host, receiver],
            wires: vec![WirePlan {
                stormy: [model.clone(), model.clone()],
                calm: [model.clone(), model],
            }],
            talks: vec![Talk {
                family: Family::V4,
                client: 0,
                server: 1,
                port: 4000,
                client_port: None,
                begins: Instant::ZERO,
                times: 1,
                up,
                down: Side::sends(0),
            }],
            datagrams: Vec::new(),
            mishaps: Vec::new(),
            calm_at: Instant::ZERO,
            patience: Duration::from_secs(seconds * 2 + 600),
            judges: Judges::Contents,
        }
    }
}
