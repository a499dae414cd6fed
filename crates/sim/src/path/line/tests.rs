use super::*;
use gannet_wire::checksum::sum;

const SEED: u64 = 7;

fn path(text: &str) -> Path {
    Path::new(text.parse().unwrap(), Medium::Ip, SEED)
}

/// Pushes `count` frames of `len` bytes, one each `every`, numbered in their first bytes, and pops
/// whenever something may come: what arrived and when.
fn run(path: &mut Path, count: u64, len: usize, every: Duration) -> Vec<(Instant, u64)> {
    let mut arrived = Vec::new();
    let mut drain = |path: &mut Path, until: Instant| {
        while let Some(at) = path.next_at().filter(|at| *at <= until) {
            while let Some(frame) = path.pop(at) {
                arrived.push((at, number(&frame)));
            }
        }
    };
    let mut now = Instant::ZERO;
    for n in 0..count {
        drain(path, now);
        let mut frame = n.to_be_bytes().to_vec();
        frame.resize(len, 0);
        path.push(now, frame);
        now += every;
    }
    drain(path, Instant::FAR_FUTURE);
    assert!(path.is_empty());
    arrived
}

fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(*frame.first_chunk().unwrap())
}

fn count(path: &Path, event: Event) -> u64 {
    path.counters().get(event)
}

const MICRO: Duration = Duration::from_micros(1);

#[test]
fn a_frame_takes_its_time_on_the_line_and_then_the_delay() {
    // 1000 bytes at 8 Mb/s: 1 ms each.
    let mut path = path("rate=8mbit,delay=50ms");
    let arrived = run(&mut path, 3, 1000, Duration::ZERO);
    let at: Vec<u64> = arrived.iter().map(|(at, _)| at.as_micros()).collect();
    assert_eq!(at, [51_000, 52_000, 53_000]);
}

#[test]
fn the_rate_is_kept_however_fast_frames_come() {
    let mut path = path("rate=100mbit,delay=1ms,jitter=0ms");
    let arrived = run(&mut path, 10_000, 1250, MICRO);
    let (last, _) = arrived[arrived.len() - 1];
    // 12.5 MB at 12.5 MB/s, and the delay.
    assert_eq!(last, Instant::from_millis(1001));
    assert_eq!(path.delivered_bytes(), 12_500_000);
}

#[test]
fn jitter_is_bounded_and_keeps_the_order() {
    let mut path = path("delay=10ms,jitter=2ms");
    let arrived = run(&mut path, 1000, 100, MICRO);
    assert!(arrived.windows(2).all(|w| w[0].1 + 1 == w[1].1));
    let spread: Vec<u64> = arrived.iter().map(|(at, n)| at.as_micros() - n).collect();
    assert!(spread.iter().all(|us| (10_000..=12_000).contains(us)));
    assert!(spread.iter().max().unwrap() - spread.iter().min().unwrap() > 500);
}

#[test]
fn a_full_queue_drops_the_last_comer() {
    let mut by_bytes = path("rate=8mbit,queue=5000");
    run(&mut by_bytes, 20, 1000, Duration::ZERO);
    assert_eq!(
        count(&by_bytes, Event::QueueFull),
        14,
        "one on the line, five wait"
    );
    assert_eq!(by_bytes.queued_most(), 5000);
    let mut by_packets = path("rate=8mbit,queue=3p");
    let arrived = run(&mut by_packets, 20, 1000, Duration::ZERO);
    assert_eq!(count(&by_packets, Event::QueueFull), 16);
    assert!(arrived.iter().map(|(_, n)| *n).eq(0..4));
}

#[test]
fn a_queue_that_the_line_keeps_up_with_drops_nothing() {
    let mut path = path("rate=8mbit,queue=1p");
    run(&mut path, 1000, 1000, Duration::from_millis(1));
    assert_eq!(count(&path, Event::Delivered), 1000);
}

#[test]
fn faults_strike_as_often_as_they_should() {
    const COUNT: u64 = 200_000;
    // (model, event, expected per million, tolerance: five standard deviations)
    for (text, event, expected) in [
        ("loss=1%", Event::Lost, 10_000.0),
        ("loss=30%", Event::Lost, 300_000.0),
        ("dup=0.1%", Event::Duplicated, 1_000.0),
        ("reorder=2%:5ms", Event::Reordered, 20_000.0),
        ("corrupt=0.5%", Event::Corrupted, 5_000.0),
    ] {
        let mut path = path(text);
        run(&mut path, COUNT, 20, MICRO);
        let share: f64 = expected / 1e6;
        let mean = share * COUNT as f64;
        let tolerance = 5.0 * (mean * (1.0 - share)).sqrt();
        let seen = count(&path, event) as f64;
        assert!(
            (seen - mean).abs() < tolerance,
            "{text}: {seen}, not {mean}"
        );
        let lost = count(&path, Event::Lost);
        let twice = count(&path, Event::Duplicated);
        assert_eq!(count(&path, Event::Delivered), COUNT - lost + twice);
    }
}

#[test]
fn bursts_are_as_long_and_as_frequent_as_the_chances_say() {
    let mut path = path("burst=1%:25%");
    let arrived = run(&mut path, 200_000, 20, MICRO);
    let lost = count(&path, Event::LostInBurst) as f64 / 200_000.0;
    // Share of the bad state: 0.01 / (0.01 + 0.25).
    assert!((lost - 0.03846).abs() < 0.004, "{lost}");
    let bursts = arrived.windows(2).filter(|w| w[1].1 > w[0].1 + 1).count();
    let length = lost * 200_000.0 / bursts as f64;
    assert!((length - 4.0).abs() < 0.3, "{length}");
}

#[test]
fn late_frames_are_passed_by_more_than_a_window() {
    let mut path = path("delay=1ms,reorder=1%:500ms");
    let arrived = run(&mut path, 10_000, 20, MICRO * 50);
    let behind = arrived
        .iter()
        .enumerate()
        .map(|(at, (_, n))| at as u64 - (*n).min(at as u64));
    assert!(behind.max().unwrap() > 5000, "passed by thousands");
    assert_eq!(arrived.len(), 10_000);
}

#[test]
fn the_same_seed_gives_the_same_path_however_often_one_looks() {
    let text = "rate=100mbit,delay=5ms,jitter=1ms,queue=bdp,loss=2%,dup=1%,reorder=1%:3ms,\
         corrupt=1%,burst=0.1%:20%,codel,flap=200ms:5ms,at=50ms:rate=50mbit";
    let (mut often, mut seldom) = (path(text), path(text));
    let first = run(&mut often, 5000, 1000, MICRO * 70);
    for n in 0..5000_u64 {
        let mut frame = n.to_be_bytes().to_vec();
        frame.resize(1000, 0);
        seldom.push(Instant::ZERO + MICRO * 70 * n as u32, frame);
    }
    let late: Vec<u64> = std::iter::from_fn(|| seldom.pop(Instant::FAR_FUTURE))
        .map(|frame| number(&frame))
        .collect();
    assert!(late.iter().eq(first.iter().map(|(_, n)| n)));
    let other = Path::new(text.parse().unwrap(), Medium::Ip, SEED + 1);
    assert_ne!(run(&mut { other }, 5000, 1000, MICRO * 70), first);
}

#[test]
fn the_schedule_takes_the_link_down_and_slows_it() {
    let mut path = path("rate=8mbit,down=10ms:5ms,at=20ms:rate=4mbit,at=30ms:mtu=500");
    let arrived = run(&mut path, 40, 1000, Duration::from_millis(1));
    assert_eq!(count(&path, Event::LinkDown), 5, "those of 10 to 14 ms");
    assert_eq!(count(&path, Event::TooBig), 10, "those from 30 ms on");
    let mut gap = arrived.iter().zip(&arrived[1..]).map(|(a, b)| b.0 - a.0);
    assert_eq!(gap.next_back(), Some(Duration::from_millis(2)));
}

#[test]
fn a_flapping_link_loses_its_share() {
    let mut path = path("flap=100ms:20ms");
    run(&mut path, 1000, 100, Duration::from_millis(1));
    assert_eq!(count(&path, Event::LinkDown), 200);
}

#[test]
fn a_partition_by_hand_is_one_way_and_ends() {
    let mut path = path("");
    path.set_down(Instant::ZERO, true);
    path.push(Instant::ZERO, vec![1]);
    path.set_down(Instant::from_millis(1), false);
    path.push(Instant::from_millis(1), vec![2]);
    assert_eq!(
        path.pop(Instant::from_millis(1)),
        Some([2].as_slice().into())
    );
    assert_eq!(count(&path, Event::LinkDown), 1);
}

/// A TCP segment with correct checksums and ECT(0).
fn segment(flags: u8, payload: usize) -> Vec<u8> {
    let len = 40 + payload;
    let mut packet = vec![0x45, 2, 0, len as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet.extend_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    packet.extend_from_slice(&[0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags]);
    packet.extend_from_slice(&[1, 0, 0, 0, 0, 0]);
    packet.resize(len, 0x5a);
    let header = sum(&packet[..20]).finish();
    packet[10..12].copy_from_slice(&header.to_be_bytes());
    let transport = !folded(&packet);
    packet[36..38].copy_from_slice(&transport.to_be_bytes());
    packet
}

fn folded(packet: &[u8]) -> u16 {
    let mut total = sum(&packet[12..20]);
    total.add_u16(6);
    total.add_u16(packet.len() as u16 - 20);
    total.combine(sum(&packet[20..]), false).fold()
}

#[test]
fn only_bare_acknowledgements_are_lost_as_such() {
    let mut path = path("ackloss=100%");
    for (flags, payload) in [(0x10, 0), (0x18, 5), (0x12, 0), (0x11, 0), (0x14, 0)] {
        path.push(Instant::ZERO, segment(flags, payload));
    }
    assert_eq!(count(&path, Event::AckLost), 1);
    assert_eq!(path.flying.len(), 4);
}

#[test]
fn corruption_is_one_bit_and_can_leave_the_checksum_right() {
    for (text, right) in [("corrupt=100%", false), ("unseen=100%", true)] {
        for seed in 0..200 {
            let mut path = Path::new(text.parse().unwrap(), Medium::Ip, seed);
            let before = segment(0x18, 21);
            path.push(Instant::ZERO, before.clone());
            let after = path.pop(Instant::ZERO).unwrap();
            let differ = |at: std::ops::Range<usize>| -> u32 {
                let pairs = before[at.clone()].iter().zip(&after[at]);
                pairs.map(|(a, b)| (a ^ b).count_ones()).sum()
            };
            let (data, field) = (differ(0..36) + differ(38..61), differ(36..38));
            match right {
                true => assert_eq!((data, folded(&after)), (1, 0xffff), "seed {seed}"),
                false => assert_eq!(data + field, 1, "seed {seed}"),
            }
        }
    }
}

#[test]
fn a_crowded_queue_marks_the_packets_of_ecn_senders_only() {
    let mut path = path("rate=8mbit,mark=100");
    let mut deaf = segment(0x18, 60);
    deaf[1] = 0;
    for frame in [
        segment(0x18, 60),
        segment(0x18, 60),
        segment(0x18, 60),
        deaf,
    ] {
        path.push(Instant::ZERO, frame);
    }
    let out: Vec<Buffer> = std::iter::from_fn(|| path.pop(Instant::from_millis(10))).collect();
    let marks: Vec<u8> = out.iter().map(|frame| frame[1] & 3).collect();
    assert_eq!(marks, [2, 2, 3, 0]);
    assert!(out.iter().take(3).all(|f| sum(&f[..20]).fold() == 0xffff));
    assert_eq!(count(&path, Event::Marked), 1);
}

#[test]
fn managed_queues_stay_short() {
    let most = |text: &str| {
        let mut path = path(text);
        // 10 % more than the line takes.
        let arrived = run(&mut path, 20_000, 1000, MICRO * 909);
        let waits = arrived.iter().map(|(at, n)| at.as_micros() - 909 * n);
        let late: Vec<u64> = waits.skip(10_000).collect();
        (
            late.iter().sum::<u64>() / late.len() as u64,
            count(&path, Event::QueueManaged),
        )
    };
    let (plain, managed) = (
        most("rate=8mbit,queue=1M"),
        most("rate=8mbit,queue=1M,codel"),
    );
    assert_eq!(plain.1, 0);
    assert!(managed.1 > 500, "{managed:?}");
    assert!(managed.0 * 4 < plain.0, "{plain:?} {managed:?}");
}

#[test]
fn frames_of_any_bytes_do_no_harm() {
    let text = "loss=1%,ackloss=50%,corrupt=50%,unseen=50%,mark=0,codel=0ns:0ns,rate=1kbit";
    let mut rng = Rng::new(SEED);
    for medium in [Medium::Ip, Medium::Ethernet] {
        let mut path = Path::new(text.parse().unwrap(), medium, SEED);
        for n in 0..20_000 {
            let mut frame = vec![0; rng.below(80) as usize];
            rng.fill(&mut frame);
            if let Some(ethertype) = frame.get_mut(12..15) {
                let kinds = [[8, 0, 0x45], [0x86, 0xdd, 0x60]];
                ethertype.copy_from_slice(&kinds[n % 2]);
            }
            path.push(Instant::ZERO, frame);
        }
        while path.pop(Instant::FAR_FUTURE).is_some() {}
        assert!(path.is_empty());
    }
}
