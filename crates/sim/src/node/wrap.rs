//! Clocks set so that the numbers of a connection pass 2^32 while it lasts: without that hardly any
//! run would see it. The numbers are hashes of the host's secret and the connection's ends, plus
//! its clock (RFC 6528, RFC 7323 section 7.1); of these only the clock is ours to choose.

use core::net::SocketAddr;

use gannet_base::Instant;
use gannet_stack::hash::{FourTuple, HashKey};
use gannet_stack::tcp::isn::{initial_sequence, timestamp_offset};

use crate::scenario::{NearWrap, Scenario};

/// Nanoseconds of a step of the clock of sequence numbers, and of that of time stamps.
const NUMBERS: u64 = 4_000;
const STAMPS: u64 = 1_000_000;

/// What the clock of the host `number`, whose secret is `secret`, must show when the world begins,
/// so that its numbers in the first conversation are as far from the wrap as `near` says when the
/// conversation begins. `None`: that is no concern of this host.
pub fn clock(
    scenario: &Scenario,
    number: usize,
    secret: [u8; 16],
    near: NearWrap,
) -> Option<Instant> {
    let talk = scenario.talks.first()?;
    let ends = [talk.client, talk.server];
    let us = ends.iter().position(|host| *host == number)?;
    let address = |host, port| SocketAddr::new(scenario.address(host, talk.family), port);
    let ends = [
        address(talk.client, talk.client_port?),
        address(talk.server, talk.port),
    ];
    let tuple = FourTuple {
        local: ends[us],
        remote: ends[1 - us],
    };
    let key = HashKey::new(secret);
    // (number at the clock's zero, how far before the wrap, the clock's step)
    let (zero, before, step) = match near {
        NearWrap::Numbers(before) => {
            let zero = initial_sequence(&key, &tuple, Instant::ZERO);
            (zero.0, before, NUMBERS)
        }
        NearWrap::Stamps(before) => (timestamp_offset(&key, &tuple), before, STAMPS),
    };
    let steps = zero.wrapping_add(before).wrapping_neg();
    let shown = Instant::from_nanos(u64::from(steps) * step);
    let begins = talk.begins.as_nanos();
    let round = step << 32;
    // (a clock shows at least a second when the world begins)
    let early = shown.as_nanos() < begins + 1_000_000_000;
    let shown = shown.as_nanos() + if early { round } else { 0 };
    Some(Instant::from_nanos(shown - begins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_where_they_were_asked_for() {
        let mut scenario = Scenario::speed(1);
        scenario.talks[0].client_port = Some(50_000);
        scenario.talks[0].begins = Instant::from_millis(700);
        let begins = scenario.talks[0]
            .begins
            .saturating_duration_since(Instant::ZERO);
        let secret = [7; 16];
        let key = HashKey::new(secret);
        for number in [0, 1] {
            let at = |near| clock(&scenario, number, secret, near).expect("a part") + begins;
            let ends = [(0, 50_000), (1, 4000)].map(|(host, port)| {
                let address = scenario.address(host, crate::address::Family::V4);
                SocketAddr::new(address, port)
            });
            let tuple = FourTuple {
                local: ends[number],
                remote: ends[1 - number],
            };
            let isn = initial_sequence(&key, &tuple, at(NearWrap::Numbers(1000)));
            assert_eq!(isn.0.wrapping_neg(), 1000);
            let now = at(NearWrap::Stamps(250)).as_millis() as u32;
            let stamp = now.wrapping_add(timestamp_offset(&key, &tuple));
            assert_eq!(stamp.wrapping_neg(), 250);
        }
    }
}
