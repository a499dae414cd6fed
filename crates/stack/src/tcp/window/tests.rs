//! RFC 7323 section 2; RFC 9293 sections 3.7.4 and 3.8.6.
use super::*;
use gannet_base::Rng;

#[test]
fn rfc_7323_section_2_3_shift() {
    let rows = [
        (0, 0),
        (65_535, 0),
        (65_536, 1),
        (131_071, 1),
        (131_072, 2),
        (16 << 20, 9),
        (1 << 30, 14),
        (u32::MAX, 14),
    ];
    for (buffer, shift) in rows {
        assert_eq!(WindowScale::for_buffer(buffer).shift(), shift, "{buffer}");
    }
    assert_eq!(WindowScale::new(15).shift(), 14);
    assert_eq!(WindowScale::new(255), WindowScale::MAX);
}

#[test]
fn scaling_there_and_back() {
    let by = WindowScale::new(7);
    assert_eq!(UnscaledWindow(3).scale(by), WindowSize(384));
    assert_eq!(WindowSize(511).unscale(by), UnscaledWindow(3));
    assert_eq!(WindowSize(u32::MAX).unscale(by), UnscaledWindow(65_535));
    assert_eq!(
        UnscaledWindow(65_535).scale(WindowScale::MAX),
        WindowSize(65_535 << 14)
    );
}

#[test]
fn section_3_8_6_2_2_receiver() {
    let w = |offered, free, buffer, mss| {
        window_to_advertise(WindowSize(offered), free, buffer, mss, WindowScale::ZERO).0
    };
    assert_eq!(
        w(0, 1000, 64_000, 1460),
        0,
        "less than a segment: stays shut"
    );
    assert_eq!(w(0, 1460, 64_000, 1460), 1460);
    assert_eq!(
        w(5000, 6000, 64_000, 1460),
        5000,
        "small step: right edge stays"
    );
    assert_eq!(w(5000, 6460, 64_000, 1460), 6460);
    assert_eq!(w(5000, 100, 64_000, 1460), 5000, "never shrinks");
    assert_eq!(
        w(0, 400, 1000, 1460),
        0,
        "half of a small buffer instead of a segment"
    );
    assert_eq!(w(0, 500, 1000, 1460), 500);
    assert_eq!(w(0, 1 << 20, 1 << 20, 1460), 65_535, "what 16 bits can say");
    assert_eq!(w(0, 0, 0, 0), 0);
}

#[test]
fn random_windows_keep_their_promise_and_survive_the_wire() {
    let mut rng = Rng::new(1);
    for _ in 0..100_000 {
        let scale = WindowScale::new(rng.below(15) as u8);
        let buffer = rng.below(1 << 24) as u32;
        let free = rng.below(u64::from(buffer) + 1) as u32;
        let most = u64::from(u32::from(u16::MAX) << scale.shift()).min(1 << 24);
        let offered = WindowSize(rng.below(most + 1) as u32);
        let w = window_to_advertise(offered, free, buffer, 1460, scale);
        assert!(w.0 + scale.unit() > offered.0);
        assert!(w.0 <= free.max(offered.0));
        assert_eq!(w.unscale(scale).scale(scale), w);
    }
}

#[test]
fn window_updates() {
    // offered, would offer, mss
    let rows = [
        (0, 0, 1460, false),
        (0, 500, 1460, true), // reopened: the buffer is that small
        (1000, 2460, 1460, true),
        (1000, 1900, 1460, false),
        (1000, 2000, 1460, true), // doubled: the buffer holds two segments at most
        (60_000, 64_000, 1460, false),
        (10_000, 20_000, 1460, true),
        (40_000, 100_000, 65_000, true), // a buffer of less than two segments
        (60_000, 100_000, 65_000, false),
        (5000, 4000, 1460, false),
    ];
    for (offered, would, mss, due) in rows {
        let got = window_update_due(WindowSize(offered), WindowSize(would), mss);
        assert_eq!(got, due, "{offered} {would} {mss}");
    }
}

#[test]
fn appendix_a_3_nagle() {
    let s = SeqNum;
    let held = |una, small_end| Nagle::On.holds(s(una), s(1000), small_end);
    assert!(!held(500, None));
    assert!(held(500, Some(s(600))), "a small segment is on its way");
    assert!(!held(600, Some(s(600))), "acknowledged");
    assert!(!held(500, Some(s(100))), "long ago");
    assert!(!Nagle::Off.holds(s(500), s(1000), Some(s(600))));
}

#[test]
fn section_3_8_6_2_1_sender() {
    use SendAnswer::{Send, Wait, WaitForWindow};
    // queued, usable, nagle, pushed, override, answer; MSS 1000, Max(SND.WND) 8000
    let rows = [
        (0, 5000, false, true, false, Wait),
        (1000, 5000, true, false, false, Send(1000)), // (1)
        (3500, 5000, true, true, false, Send(3000)),  // (1), the tail waits
        (3500, 5000, false, true, false, Send(3500)), // (1) and (2) together
        (3500, 5000, false, false, false, Send(3000)), // not pushed (corked)
        (3500, 2600, false, true, false, Send(2000)), // only whole ones of many
        (500, 5000, false, true, false, Send(500)),   // (2)
        (500, 5000, true, true, false, Wait),         // Nagle
        (500, 5000, false, false, false, Wait),       // corked
        (5000, 999, false, true, false, WaitForWindow),
        (5000, 0, false, true, true, WaitForWindow), // persist, not override
        (5000, 999, false, true, true, Send(999)),   // (4)
        (500, 5000, true, true, true, Send(500)),    // (4)
    ];
    for (queued, usable, nagle_holds, pushed, override_timeout, answer) in rows {
        let q = SendQuestion {
            queued,
            usable,
            mss: 1000,
            max_snd_wnd: 8000,
            nagle_holds,
            pushed,
            override_timeout,
        };
        assert_eq!(q.answer(), answer, "{q:?}");
    }
    let q = SendQuestion {
        queued: 5000,
        usable: 500,
        mss: 1000,
        max_snd_wnd: 1000,
        nagle_holds: false,
        pushed: true,
        override_timeout: false,
    };
    assert_eq!(
        q.answer(),
        Send(500),
        "(3): half of the largest window the peer ever had"
    );
}

#[test]
fn section_3_8_6_1_probes_back_off() {
    let s = Duration::from_secs;
    let rows = [
        (0, s(1)),
        (1, s(2)),
        (5, s(32)),
        (6, s(60)),
        (u32::MAX, s(60)),
    ];
    for (sent, wait) in rows {
        assert_eq!(probe_interval(s(1), sent), wait);
    }
    assert_eq!(
        probe_interval(s(120), 3),
        s(120),
        "never sooner than the time-out"
    );
}
