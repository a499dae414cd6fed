//! A model as text: words `key=value` with commas between, and back.
//!
//! ```text
//! rate=100mbit delay=25ms jitter=2ms mtu=1500 queue=bdp|2bdp|64K|100p mark=30K
//! codel[=5ms:100ms] loss=1% burst=0.1%:25%[:100%] ackloss=5% dup=0.1% reorder=1%:5ms
//! corrupt=0.01% unseen=0.01% flap=5s:200ms down=10s:1s
//! at=10s:rate=5mbit at=10s:mtu=1280 at=10s:delay=50ms at=10s:loss=3%
//! ```

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::error::ModelError;
use super::model::{Burst, Change, Codel, Flap, Model, Step};

const WORDS: &str = "words like rate=100mbit,delay=25ms,jitter=2ms,queue=bdp,mtu=1500,mark=30K,\
     codel,loss=1%,burst=0.1%:25%,ackloss=1%,dup=0.1%,reorder=1%:5ms,corrupt=0.01%,unseen=0.01%,\
     flap=5s:200ms,down=10s:1s,at=10s:rate=5mbit";
const RATES: &str = "a rate is a number with bit, kbit, mbit or gbit (per second), or `unlimited`";
const TIMES: &str = "a time is a number with ns, us, ms or s";
const CHANCES: &str = "a chance is a percentage like 1% or 0.01%";
const SIZES: &str = "a size is a number of bytes, with K or M (1024) if you like";
const QUEUES: &str = "a queue is bdp, 2bdp, a size like 64K, or packets like 100p";
const MTUS: &str = "an MTU is a number of bytes from 68 to 65535";

impl FromStr for Model {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let mut model = Model::default();
        let mut products = None;
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            if key == "queue" && value.ends_with("bdp") {
                products = Some((word, value));
                continue;
            }
            read_word(&mut model, key, value)
                .map_err(|(why, hint)| ModelError::new(word, why, hint))?;
        }
        if let Some((word, value)) = products {
            // Last, since rate and delay may stand behind it.
            model.queue_bytes = Some(
                product(&model, value).map_err(|(why, hint)| ModelError::new(word, why, hint))?,
            );
        }
        model.schedule.sort_by_key(|step| step.at);
        Ok(model)
    }
}

type Wrong = (String, &'static str);

fn read_word(model: &mut Model, key: &str, value: &str) -> Result<(), Wrong> {
    let faults = &mut model.faults;
    match key {
        "rate" => model.rate = rate(value)?,
        "delay" => model.delay = time(value)?,
        "jitter" => model.jitter = time(value)?,
        "queue" => match value.strip_suffix('p') {
            Some(count) => model.queue_packets = Some(whole(count, QUEUES)?),
            None => model.queue_bytes = Some(size(value, QUEUES)?),
        },
        "mark" => model.mark_bytes = Some(size(value, SIZES)?),
        "codel" if value.is_empty() => model.codel = Some(Codel::default()),
        "codel" => {
            let (target, interval) = two_times(value)?;
            model.codel = Some(Codel { target, interval });
        }
        "mtu" => model.mtu = mtu(value)?,
        "loss" => faults.loss = chance(value)?,
        "burst" => faults.burst = Some(burst(value)?),
        "ackloss" => faults.ack_loss = chance(value)?,
        "dup" => faults.duplicate = chance(value)?,
        "reorder" => {
            let (often, by) = pair(value)?;
            (faults.reorder, faults.reorder_by) = (chance(often)?, time(by)?);
        }
        "corrupt" => faults.corrupt = chance(value)?,
        "unseen" => faults.corrupt_unseen = chance(value)?,
        "flap" => model.flap = Some(flap(value)?),
        "down" => {
            let (at, long) = two_times(value)?;
            let steps = [(at, Change::Down), (at.saturating_add(long), Change::Up)];
            let steps = steps.map(|(at, change)| Step { at, change });
            model.schedule.extend(steps);
        }
        "at" => model.schedule.push(step(value)?),
        _ => return Err(("there is no such word".to_owned(), WORDS)),
    }
    Ok(())
}

fn step(value: &str) -> Result<Step, Wrong> {
    let (at, what) = pair(value)?;
    let (key, value) = what.split_once('=').unwrap_or((what, ""));
    let change = match key {
        "rate" => Change::Rate(rate(value)?),
        "delay" => Change::Delay(time(value)?),
        "mtu" => Change::Mtu(mtu(value)?),
        "loss" => Change::Loss(chance(value)?),
        "down" => Change::Down,
        "up" => Change::Up,
        _ => return Err((format!("`{key}` cannot change under way"), WORDS)),
    };
    let at = time(at)?;
    Ok(Step { at, change })
}

fn burst(value: &str) -> Result<Burst, Wrong> {
    let (enter, rest) = pair(value)?;
    let (leave, loss) = rest.split_once(':').unwrap_or((rest, "100%"));
    Ok(Burst {
        enter: chance(enter)?,
        leave: chance(leave)?,
        loss: chance(loss)?,
    })
}

fn flap(value: &str) -> Result<Flap, Wrong> {
    let (period, down) = two_times(value)?;
    if period.is_zero() || down > period {
        let hint = "first the time from failure to failure, then how long one lasts: 5s:200ms";
        return Err(("a failure is longer than its period".to_owned(), hint));
    }
    Ok(Flap { period, down })
}

fn pair(value: &str) -> Result<(&str, &str), Wrong> {
    let missing = || ("there is no `:` with a second value".to_owned(), WORDS);
    value.split_once(':').ok_or_else(missing)
}

fn two_times(value: &str) -> Result<(Duration, Duration), Wrong> {
    let (first, second) = pair(value)?;
    Ok((time(first)?, time(second)?))
}

fn number(digits: &str, most: f64, hint: &'static str) -> Result<f64, Wrong> {
    let parsed: Result<f64, _> = digits.parse();
    match parsed {
        Ok(n) if (0.0..=most).contains(&n) => Ok(n),
        Ok(n) => Err((format!("{n} is not between 0 and {most}"), hint)),
        Err(_) => Err((format!("`{digits}` is no number"), hint)),
    }
}

fn whole(digits: &str, hint: &'static str) -> Result<u64, Wrong> {
    let bad = |_| (format!("`{digits}` is no whole number"), hint);
    digits.parse().map_err(bad)
}

fn with_unit(value: &str, units: &[(&str, f64)], hint: &'static str) -> Result<f64, Wrong> {
    let fits = |(unit, _): &&(&str, f64)| value.ends_with(unit);
    let Some((unit, factor)) = units.iter().find(fits) else {
        return Err((format!("`{value}` has no unit"), hint));
    };
    let digits = value.strip_suffix(unit).unwrap_or(value);
    Ok(number(digits, 1e12, hint)? * factor)
}

fn rate(value: &str) -> Result<Option<u64>, Wrong> {
    if value == "unlimited" {
        return Ok(None);
    }
    let units = [
        ("gbit", 125e6),
        ("mbit", 125e3),
        ("kbit", 125.0),
        ("bit", 0.125),
    ];
    match with_unit(value, &units, RATES)? as u64 {
        0 => Err(("a line of less than a byte per second".to_owned(), RATES)),
        rate => Ok(Some(rate)),
    }
}

fn time(value: &str) -> Result<Duration, Wrong> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let nanos = with_unit(value, &units, TIMES)?;
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Per million.
fn chance(value: &str) -> Result<u32, Wrong> {
    let missing = || (format!("`{value}` has no %"), CHANCES);
    let digits = value.strip_suffix('%').ok_or_else(missing)?;
    Ok((number(digits, 100.0, CHANCES)? * 10_000.0).round() as u32)
}

fn size(value: &str, hint: &'static str) -> Result<u64, Wrong> {
    let (digits, unit) = match value.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => match value.strip_suffix(['M', 'm']) {
            Some(digits) => (digits, 1 << 20),
            None => (value, 1),
        },
    };
    let too_large = || (format!("`{value}` is too large"), hint);
    whole(digits, hint)?.checked_mul(unit).ok_or_else(too_large)
}

fn mtu(value: &str) -> Result<Option<u32>, Wrong> {
    match whole(value, MTUS)? {
        mtu @ 68..=65_535 => Ok(Some(mtu as u32)),
        _ => Err((format!("{value} bytes"), MTUS)),
    }
}

fn product(model: &Model, value: &str) -> Result<u64, Wrong> {
    let times = match value.strip_suffix("bdp") {
        Some("") | None => 1.0,
        Some(digits) => number(digits, 1e6, QUEUES)?,
    };
    let missing = || {
        let why = "the bandwidth-delay product needs a rate";
        (
            why.to_owned(),
            "add rate=100mbit, or give a size: queue=64K",
        )
    };
    Ok((model.bandwidth_delay_product().ok_or_else(missing)? as f64 * times) as u64)
}

/// The text that [`Model::from_str`] reads back to an equal model.
impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let percent = |per_million: u32| format!("{}%", f64::from(per_million) / 10_000.0);
        let nanos = |time: Duration| format!("{}ns", time.as_nanos());
        let bits = |rate: Option<u64>| match rate {
            None => "unlimited".to_owned(),
            Some(bytes) => format!("{}bit", u128::from(bytes) * 8),
        };
        let mut put = |key: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{key}={value}")));
        };
        let faults = &self.faults;
        put("rate", self.rate.map(|rate| bits(Some(rate))));
        for (key, time) in [("delay", self.delay), ("jitter", self.jitter)] {
            put(key, (!time.is_zero()).then(|| nanos(time)));
        }
        put("queue", self.queue_bytes.map(|n| n.to_string()));
        put("queue", self.queue_packets.map(|n| format!("{n}p")));
        put("mark", self.mark_bytes.map(|n| n.to_string()));
        let two = |a, b| format!("{}:{}", nanos(a), nanos(b));
        put("codel", self.codel.map(|c| two(c.target, c.interval)));
        put("mtu", self.mtu.map(|n| n.to_string()));
        for (key, chance) in [
            ("loss", faults.loss),
            ("ackloss", faults.ack_loss),
            ("dup", faults.duplicate),
            ("corrupt", faults.corrupt),
            ("unseen", faults.corrupt_unseen),
        ] {
            put(key, (chance > 0).then(|| percent(chance)));
        }
        let burst = |b: Burst| [b.enter, b.leave, b.loss].map(percent).join(":");
        put("burst", faults.burst.map(burst));
        let late = format!("{}:{}", percent(faults.reorder), nanos(faults.reorder_by));
        put("reorder", (faults.reorder > 0).then_some(late));
        put("flap", self.flap.map(|flap| two(flap.period, flap.down)));
        for step in &self.schedule {
            let change = match step.change {
                Change::Rate(rate) => format!("rate={}", bits(rate)),
                Change::Delay(delay) => format!("delay={}", nanos(delay)),
                Change::Mtu(mtu) => format!("mtu={}", mtu.unwrap_or(65_535)),
                Change::Loss(loss) => format!("loss={}", percent(loss)),
                Change::Down => "down".to_owned(),
                Change::Up => "up".to_owned(),
            };
            put("at", Some(format!("{}:{change}", nanos(step.at))));
        }
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_survives_its_text() {
        let texts = [
            "",
            "loss=1%,dup=0.1%,reorder=1%:5ms,delay=50ms,jitter=2ms,rate=100mbit,queue=bdp",
            "queue=2bdp,rate=1gbit,delay=10us",
            "queue=64K,queue=100p,mark=30K,codel,mtu=1400,burst=0.1%:25%,ackloss=5%",
            "codel=1ms:20ms,burst=1%:20%:50%,corrupt=0.01%,unseen=0.02%,flap=5s:200ms",
            "at=10s:rate=5mbit,down=1s:1s,at=3s:mtu=1280,at=4s:delay=1ms,at=5s:loss=3%",
            "at=10s:rate=unlimited,at=1s:down,at=2s:up",
        ];
        for text in texts {
            let model: Model = text.parse().unwrap();
            let again: Model = model.to_string().parse().unwrap();
            assert_eq!(model, again, "{text} became {model}");
        }
    }

    #[test]
    fn figures_are_in_their_units() {
        let text = "loss=1%,delay=50ms,jitter=2ms,rate=100mbit,queue=bdp,at=2s:mtu=1280";
        let model: Model = text.parse().unwrap();
        assert_eq!((model.rate, model.faults.loss), (Some(12_500_000), 10_000));
        assert_eq!(model.delay, Duration::from_millis(50));
        assert_eq!(model.queue_bytes, Some(1_250_000));
        let change = Change::Mtu(Some(1280));
        let at = Duration::from_secs(2);
        assert_eq!(model.schedule, [Step { at, change }]);
    }

    #[test]
    fn what_is_no_model_is_said_in_three_lines() {
        for text in [
            "speed=1",
            "loss=1",
            "loss=101%",
            "loss=nan%",
            "delay=5",
            "delay=-1ms",
            "rate=0mbit",
            "rate=fast",
            "queue=bdp",
            "queue=x",
            "queue=99999999999999999999M",
            "queue=18446744073709551615M",
            "mtu=10",
            "reorder=1%",
            "reorder=1%:soon",
            "burst=1%",
            "flap=1s:2s",
            "flap=0s:0s",
            "at=1s:jitter=1ms",
            "at=rate=1mbit",
            "codel=5ms",
        ] {
            let told = text.parse::<Model>().unwrap_err().to_string();
            let lines: Vec<&str> = told.lines().collect();
            assert_eq!(lines.len(), 3, "{told}");
            assert!(lines[0].contains(text), "{told}");
            assert!(lines[1].starts_with("why: ") && lines[2].starts_with("try: "));
        }
    }
}
