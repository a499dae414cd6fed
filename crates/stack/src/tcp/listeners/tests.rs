//! The index against a list that is searched from end to end.
extern crate std;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::vec::Vec;

use gannet_base::Rng;

use super::*;
use crate::config::TcpConfig;

fn settings() -> Settings {
    Settings::new(&TcpConfig::default())
}

fn all() -> Listeners {
    Listeners::new(HashKey::new([7; 16]))
}

/// A few addresses of both families, the unspecified ones among them.
fn address(rng: &mut Rng) -> IpAddr {
    match rng.below(8) {
        0 | 1 => Ipv4Addr::UNSPECIFIED.into(),
        2 | 3 => Ipv6Addr::UNSPECIFIED.into(),
        4 => Ipv4Addr::new(192, 0, 2, 1).into(),
        5 => Ipv4Addr::new(192, 0, 2, 2).into(),
        n => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n as u16).into(),
    }
}

/// How well a listener's address fits: the very one, every one of the family, every one of both.
fn fits((at, only_six): (SocketAddr, bool), local: SocketAddr) -> Option<u8> {
    let any = at.ip().is_unspecified();
    match at.port() == local.port() {
        false => None,
        true if at.ip() == local.ip() => Some(0),
        true if any && at.is_ipv4() == local.is_ipv4() => Some(1),
        true if any && at.is_ipv6() && local.is_ipv4() && !only_six => Some(2),
        true => None,
    }
}

#[test]
fn twin_list() {
    for seed in 0..50 {
        std::println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut listeners = all();
        let mut twin: Vec<(ListenerId, (SocketAddr, bool))> = Vec::new();
        let mut gone: Vec<ListenerId> = Vec::new();
        for _ in 0..400 {
            let at = SocketAddr::new(address(&mut rng), 1 + rng.below(40) as u16);
            match rng.below(4) {
                0 | 1 => {
                    let only_six = rng.chance(500_000);
                    if !listeners.collides(at, only_six) {
                        let id = listeners.add((at, only_six), 3, settings());
                        twin.push((id, (at, only_six)));
                    }
                }
                2 if !twin.is_empty() => {
                    let (id, _) = twin.swap_remove(rng.below(twin.len() as u64) as usize);
                    assert!(listeners.remove(id).is_some());
                    gone.push(id);
                }
                _ => {
                    let best = twin.iter().filter_map(|&(id, l)| Some((fits(l, at)?, id)));
                    let best = best.min_by_key(|&(how, _)| how).map(|(_, id)| id);
                    assert_eq!(listeners.find(at), best, "{at}");
                }
            }
            listeners.invariants();
        }
        for id in gone {
            assert!(listeners.get(id).is_none() && listeners.remove(id).is_none());
        }
    }
}

/// A host with 20,000 of them finds each at the first or second look.
#[test]
fn none_of_thousands_is_searched_for() {
    let mut listeners = all();
    let at = |n: u32| {
        let address = Ipv4Addr::from(0x0a00_0000 + n / 1000);
        SocketAddr::new(address.into(), 1 + (n % 1000) as u16)
    };
    let ids: Vec<_> = (0..20_000)
        .map(|n| listeners.add((at(n), false), 1, settings()))
        .collect();
    let mut looks = 0;
    for (n, &id) in ids.iter().enumerate() {
        let local = at(n as u32);
        assert_eq!(listeners.find(local), Some(id));
        let found = listeners.ends.find(hash(&listeners.hasher, local), |&i| {
            looks += 1;
            local_at(&listeners.places, i) == Some(local)
        });
        assert_eq!(found, Some(&id.index));
    }
    assert!(looks < 30_000, "{looks}");
    assert_eq!(listeners.find(at(20_001)), None);
}
