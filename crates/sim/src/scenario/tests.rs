//! What scenarios are made of: every fault of the list is drawn often enough to be met in a few
//! hundred seeds.

use std::collections::BTreeMap;

use gannet_base::Instant;

use super::{MishapKind, Scenario, WirePlan};
use crate::app::Ending;
use crate::path::{Change, Model};

const SEEDS: u64 = 400;
/// Names that [`faults`] gives.
const KINDS: usize = 30;

/// The faults of one scenario, by name.
fn faults(scenario: &Scenario) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut note = |name, there: bool| {
        if there {
            found.push(name);
        }
    };
    for wire in &scenario.wires {
        for model in &wire.stormy {
            strikes(model, &mut note);
        }
        one_way(wire, &mut note);
    }
    for mishap in &scenario.mishaps {
        let name = match mishap.kind {
            MishapKind::Pause(_) => "stopped process",
            MishapKind::ClockForward(_) => "clock forward",
            MishapKind::ClockBack(_) => "clock back",
            MishapKind::Block(_) => "full interface",
            MishapKind::Crash(_) => "crash and restart",
            MishapKind::Kill => "killed application",
        };
        note(name, true);
    }
    for host in &scenario.hosts {
        let wrap = Instant::from_millis((1 << 32) - 20_001);
        let soon = host.clock > wrap && host.clock < Instant::from_millis(1 << 32);
        note("time stamps wrap", soon);
        note("timers coalesced", !host.coalesce.is_zero());
        note("ring full", host.interface.ring <= 16);
        note("memory short", host.interface.blocks.1 <= 128);
    }
    let sides = scenario
        .talks
        .iter()
        .flat_map(|talk| [&talk.up, &talk.down]);
    for side in sides {
        note("stalled application", side.stall.is_some());
        note("aborted", matches!(side.ending, Ending::AbortAfter(_)));
    }
    found
}

/// What one direction of a wire does to frames.
fn strikes(model: &Model, note: &mut impl FnMut(&'static str, bool)) {
    let faults = &model.faults;
    note("loss", faults.loss > 0);
    note("much loss", faults.loss >= 200_000);
    note("bursts", faults.burst.is_some());
    note("acknowledgements lost", faults.ack_loss > 0);
    note("duplication", faults.duplicate > 0);
    note("reordering", faults.reorder > 0);
    note(
        "reordering by a window",
        faults.reorder_by.as_millis() >= 100,
    );
    note("corruption", faults.corrupt > 0);
    note("corruption unseen", faults.corrupt_unseen > 0);
    note("jitter", !model.jitter.is_zero());
    note("delay", !model.delay.is_zero());
    note("flap", model.flap.is_some());
    for step in &model.schedule {
        note("partition", matches!(step.change, Change::Down));
        note("MTU changes", matches!(step.change, Change::Mtu(_)));
        note("rate changes", matches!(step.change, Change::Rate(_)));
        note("delay changes", matches!(step.change, Change::Delay(_)));
    }
}

/// What strikes one direction and not the other.
fn one_way(wire: &WirePlan, note: &mut impl FnMut(&'static str, bool)) {
    let [there, back] = &wire.stormy;
    let down = |model: &Model| {
        model
            .schedule
            .iter()
            .any(|s| matches!(s.change, Change::Down))
    };
    note("partition one way", down(there) != down(back));
    note(
        "loss one way",
        (there.faults.loss > 0) != (back.faults.loss > 0),
    );
}

#[test]
fn every_fault_of_the_list_is_drawn() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..SEEDS {
        let mut names = faults(&Scenario::generate(seed));
        names.sort_unstable();
        names.dedup();
        for name in names {
            *counts.entry(name).or_default() += 1;
        }
    }
    let seldom: Vec<_> = counts
        .iter()
        .filter(|(_, count)| **count < SEEDS / 50)
        .collect();
    assert!(seldom.is_empty(), "{seldom:?}");
    assert_eq!(counts.len(), KINDS, "{counts:?}");
}
