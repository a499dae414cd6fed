//! RFC 8985 sections 3.3.2 and 6.2 step 4.
use super::super::rtt::RttConfig;
use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn measured() -> RttEstimator {
    let mut rtt = RttEstimator::new(&RttConfig::DEFAULT);
    rtt.on_sample(MS(40));
    rtt.on_sample(MS(80)); // SRTT 45
    rtt
}

//= https://www.rfc-editor.org/rfc/rfc8985#section-3.3.2
//= type=test
//# The reordering window SHOULD be set to zero if no reordering has been observed on the connection
//# so far, and either (a) three segments have been SACKed since the last recovery or (b) the sender
//# is already in fast or RTO recovery.
//= https://www.rfc-editor.org/rfc/rfc8985#section-3.3.2
//= type=test
//# Otherwise, the reordering window SHOULD start from a small fraction of the round-trip time or
//# zero if no round-trip time estimate is available.
#[test]
fn section_3_3_2_where_the_window_starts() {
    let mut rack = Rack::new(SeqNum(0));
    let rtt = measured();
    assert_eq!(rack.reo_wnd(true, &rtt), MS(0));
    assert_eq!(rack.reo_wnd(false, &rtt), MS(10));
    let unknown = RttEstimator::new(&RttConfig::DEFAULT);
    assert_eq!(rack.reo_wnd(false, &unknown), MS(0));
    rack.reordering_seen = true;
    assert_eq!(rack.reo_wnd(true, &rtt), MS(10));
}

//= https://www.rfc-editor.org/rfc/rfc8985#section-3.3.2
//= type=test
//# The RACK reordering window SHOULD adaptively increase (using the algorithm in "Step 4: Update
//# RACK reordering window" below) if the sender receives a Duplicate Selective Acknowledgment
//# (DSACK) option [RFC2883].
//= https://www.rfc-editor.org/rfc/rfc8985#section-3.3.2
//= type=test
//# The RACK reordering window MUST be bounded, and this bound SHOULD be SRTT.
#[test]
fn section_6_2_step_4_once_a_round_up_to_srtt() {
    let mut rack = Rack::new(SeqNum(0));
    let rtt = measured();
    let mut windows = [0; 6];
    for (round, window) in windows.iter_mut().enumerate() {
        let una = SeqNum(round as u32 * 100);
        rack.on_dsack(una, una + 100);
        rack.on_dsack(una + 50, una + 200); // the same round
        *window = rack.reo_wnd(false, &rtt).as_millis();
    }
    assert_eq!(windows, [20, 30, 40, 45, 45, 45]);
    for _ in 0..255 {
        rack.on_dsack(SeqNum(10_000), SeqNum(10_000));
    }
    assert_eq!(rack.reo_wnd(false, &rtt), MS(45), "no overflow");
}

#[test]
fn section_6_2_step_4_sixteen_recoveries_later() {
    let mut rack = Rack::new(SeqNum(0));
    let rtt = measured();
    rack.on_dsack(SeqNum(0), SeqNum(100));
    for _ in 0..15 {
        rack.on_recovered();
        assert_eq!(rack.reo_wnd(false, &rtt), MS(20));
    }
    rack.on_recovered();
    assert_eq!(rack.reo_wnd(false, &rtt), MS(10));
}
