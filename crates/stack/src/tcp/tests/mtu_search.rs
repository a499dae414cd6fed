//! Larger segments are searched for by probes (RFC 4821 section 7, RFC 8899 section 5).

use std::time::Duration;
use std::vec;
use std::vec::Vec;

use gannet_base::Instant;
use gannet_link::Checksum;

use super::black_hole::Flow;
use crate::config::{CongestionControl, MtuProbing};
use crate::tcp::{TcpEvent, TcpInfo};
use crate::testing::Faults;

/// IP and TCP headers with time stamps.
const HEADERS: u32 = 52;
const MINUTES_10: Duration = Duration::from_secs(600);

fn info(flow: &Flow) -> TcpInfo {
    flow.pair.a.tcp_info(flow.from).expect("open")
}

/// A flow that has fallen down to 1,064 bytes because packets of more than `longest` vanish, twelve
/// seconds ago.
fn fallen(checksum: Checksum, longest: usize) -> Flow {
    let mut flow = Flow::with(checksum, |_| {});
    flow.transfer(100_000);
    flow.longest(longest);
    flow.transfer(100_000);
    assert_eq!((flow.mss(), flow.found()), (1012, 1));
    flow.pair.pass(Duration::from_secs(12));
    flow
}

/// Now and then a little is sent, until the search must have ended.
fn search(flow: &mut Flow) {
    for _ in 0..20 {
        flow.transfer(100_000);
        flow.pair.pass(Duration::from_secs(4));
    }
}

/// Transfers `len` bytes; when packets larger than others left, and the least congestion window.
fn watched(flow: &mut Flow, len: usize) -> (Vec<Instant>, u32) {
    let (mut probes, mut least) = (vec![], u32::MAX);
    let link = flow.pair.link_a;
    let driver = |flow: &mut Flow| {
        let endpoint = flow.pair.a.link_mut(link).expect("there");
        endpoint.driver.recorded()
    };
    flow.pair.a.link_mut(link).expect("there").driver.record();
    let mut size = flow.mss() + HEADERS;
    flow.transfer_watched(len, |flow| {
        let sent = driver(flow);
        // (once the size is raised, those are no probes any more)
        if flow.mss() + HEADERS <= size {
            let larger = sent.iter().filter(|f| f.len() > size as usize).count();
            probes.extend(vec![flow.pair.now; larger]);
        }
        size = flow.mss() + HEADERS;
        least = least.min(info(flow).congestion_window);
    });
    (probes, least)
}

/// A limit appears, and the search finds what it is; it goes, and ten minutes later the path is
/// used as before.
#[test]
fn a_flow_climbs_back() {
    for checksum in [Checksum::Software, Checksum::Partial] {
        let mut flow = fallen(checksum, 1280);
        search(&mut flow);
        assert_eq!((flow.mss(), flow.found()), (1280 - HEADERS, 1));
        flow.longest(0);
        flow.pair.pass(Duration::from_secs(60));
        flow.transfer(300_000);
        assert_eq!(flow.mss(), 1280 - HEADERS, "not yet");
        flow.pair.pass(MINUTES_10);
        flow.transfer(300_000);
        assert_eq!((flow.mss(), flow.found()), (1448, 1));
        // as if nothing had been: three time-outs before the next is believed
        flow.longest(1280);
        flow.transfer(300_000);
        assert_eq!((flow.mss(), flow.found()), (1012, 2));
    }
}

#[test]
fn what_has_gone_altogether_takes_one_probe() {
    let mut flow = fallen(Checksum::Software, 1280);
    flow.longest(0);
    let (probes, _) = watched(&mut flow, 300_000);
    assert_eq!((flow.mss(), probes.len()), (1448, 1));
    assert_eq!(flow.count(TcpEvent::MtuProbeFailed), 0);
}

/// Nothing but the probe is lost: that is no congestion. One is under way at a time, and after one
/// that failed none for as many round trips as the window has segments.
#[test]
fn a_probe_that_is_lost_costs_no_window() {
    //= https://www.rfc-editor.org/rfc/rfc4821#section-7.6.2
    //= type=test
    //# In this case alone, the loss SHOULD NOT be interpreted as congestion signal.
    //= https://www.rfc-editor.org/rfc/rfc4821#section-4
    //= type=test
    //# Normal congestion control algorithms MUST remain in effect under all conditions except when
    //# only an isolated probe packet is detected as lost.
    for control in [
        CongestionControl::Cubic,
        CongestionControl::NewReno,
        CongestionControl::Dctcp,
    ] {
        let mut flow = fallen(Checksum::Software, 1280);
        let option = crate::tcp::TcpOption::CongestionControl(control);
        flow.pair.a.tcp_set_option(flow.from, option);
        let before = info(&flow);
        let failed = flow.count(TcpEvent::MtuProbeFailed);
        let (probes, least) = watched(&mut flow, 5_000_000);
        let after = info(&flow);
        let failed = flow.count(TcpEvent::MtuProbeFailed) - failed;
        assert!(failed >= 3, "{failed} of {} failed", probes.len());
        assert!(least >= before.congestion_window.min(10 * 1012), "{least}");
        let troubles = |i: &TcpInfo| (i.fast_recoveries, i.timeouts, i.tail_probes);
        assert_eq!(troubles(&after), troubles(&before), "{control:?}");
        assert!(after.retransmissions - before.retransmissions <= 2 * failed);
        for pair in probes.windows(2) {
            let between = pair[1].saturating_duration_since(pair[0]);
            assert!(between >= Duration::from_millis(100), "{between:?}");
        }
    }
}

/// RFC 4821 section 7.4: a probe wants data behind it that shows its loss.
#[test]
fn too_little_data_carries_no_probe() {
    //= https://www.rfc-editor.org/rfc/rfc4821#section-7.4
    //= type=test
    //# For example, TCP Fast Retransmit is not robust unless there are sufficient segments
    //# following a probe; that is, the sender SHOULD have enough data queued and sufficient
    //# receiver window to send the probe plus at least Tcprexmtthresh [RFC2760] additional
    //# segments.
    let mut flow = fallen(Checksum::Software, 1280);
    for _ in 0..20 {
        let (probes, _) = watched(&mut flow, 5000);
        assert_eq!(probes.len(), 0);
    }
    // it waits, at rest too
    flow.longest(0);
    flow.pair.pass(Duration::from_secs(60));
    let (probes, _) = watched(&mut flow, 20_000);
    flow.pair.pass(Duration::from_millis(20));
    assert_eq!((probes.len(), flow.mss()), (1, 1448));
}

/// Congestion remains congestion while sizes are searched for.
#[test]
fn losses_beside_a_probe_are_congestion() {
    let mut flow = fallen(Checksum::Software, 1400);
    let before = info(&flow);
    flow.faults(Faults {
        loss: 20_000,
        longest: 1400,
        ..Faults::default()
    });
    flow.transfer(3_000_000);
    let after = info(&flow);
    assert!(after.fast_recoveries >= before.fast_recoveries + 10);
    assert!(
        (1012..=1400 - HEADERS).contains(&flow.mss()),
        "{}",
        flow.mss()
    );
}

#[test]
fn always_searching_begins_low() {
    let mut flow = Flow::with(Checksum::Software, |config| {
        config.tcp.mtu_probing = MtuProbing::Always;
    });
    assert_eq!(flow.mss(), 1012);
    flow.longest(1420);
    search(&mut flow);
    assert_eq!((flow.mss(), flow.found()), (1420 - HEADERS, 0));
    assert_eq!(info(&flow).timeouts, 0);
}

/// RFC 4821 section 7.8: a size that passed once and then does not is left after one time-out.
#[test]
fn a_size_that_passed_by_chance_is_left_at_once() {
    let mut flow = fallen(Checksum::Software, 1280);
    flow.longest(0);
    let mut narrow = false;
    flow.transfer_watched(100_000, |flow| {
        if !narrow && flow.mss() == 1448 {
            narrow = true;
            flow.longest(1280);
        }
    });
    assert_eq!((narrow, flow.mss(), flow.found()), (true, 1012, 2));
}
