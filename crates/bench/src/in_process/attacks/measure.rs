//! Instructions and processor time of one packet of each kind.
//!
//! Instructions are judged: valgrind counts a run with few and one with many packets, and the same
//! two in which packets are only written and not handed over; what is left is the host's, a packet.
//! Time is told beside it: ordinary and hostile packets in turn, a pair of stretches side by side,
//! so that whatever else the machine does strikes both.

use serde::Serialize;

use super::Kind;
use super::victim::Victim;
use crate::error::Problem;
use crate::in_process::valgrind;
use crate::statistics::Summary;
use crate::workload::cpu_seconds;

/// Packets of the two runs that are counted.
const RUNS: [u32; 2] = [500, 4500];
/// Packets of a stretch that is timed, and pairs of stretches.
const STRETCH: (u32, usize) = (4000, 15);
/// The mark: so many times what an ordinary packet costs.
const MARK: f64 = 3.0;

/// What a packet of one kind costs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    /// The kind.
    pub kind: Kind,
    /// Instructions of a packet; none: valgrind was not asked.
    pub instructions: Option<f64>,
    /// Packets that the host sent for each.
    pub answers: f64,
}

/// A hostile kind against the ordinary one.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it costs.
    pub cost: Cost,
    /// What it is compared with; none: it is ordinary.
    pub ordinary: Option<Kind>,
    /// How many times the instructions of an ordinary packet.
    pub times: Option<f64>,
    /// Nanoseconds of processor time of a packet.
    pub nanoseconds: Option<Summary>,
    /// How many times the processor time of an ordinary packet, pair by pair.
    pub times_by_clock: Option<Summary>,
    /// Whether the mark is reached.
    pub reached: bool,
}

/// Counts and times the kinds.
///
/// # Errors
/// When valgrind is missing, or the stack refuses to be attacked.
pub fn count(kinds: &[Kind], mut progress: impl FnMut(&str)) -> Result<Vec<Row>, Problem> {
    let mut rows: Vec<Row> = Vec::new();
    for &kind in kinds {
        progress(kind.name());
        let cost = Cost {
            kind,
            instructions: Some(instructions(kind, false)? - instructions(kind, true)?),
            answers: answers(kind)?,
        };
        let ordinary = kind.ordinary();
        let before = rows.iter().find(|row| Some(row.cost.kind) == ordinary);
        let under = before.and_then(|row| row.cost.instructions);
        let times = cost
            .instructions
            .zip(under)
            .map(|(over, under)| over / under);
        let (nanoseconds, times_by_clock) = timed(kind, ordinary)?;
        rows.push(Row {
            cost,
            ordinary,
            times,
            nanoseconds,
            times_by_clock,
            reached: times.is_none_or(|times| times <= MARK),
        });
    }
    Ok(rows)
}

fn instructions(kind: Kind, dry: bool) -> Result<f64, Problem> {
    let inside = |packets: u32| {
        let count = packets.to_string();
        let mut what = vec!["attacks", "--inside", kind.name(), "--packets", &count];
        what.extend(dry.then_some("--dry"));
        valgrind::count(&what)
    };
    let [few, many] = RUNS;
    let more = inside(many)?.saturating_sub(inside(few)?);
    Ok(more as f64 / f64::from(many - few))
}

/// The packets themselves, `packets` of them; `dry`: they are written and no more.
///
/// # Errors
/// When the stack refuses to be attacked.
pub fn run(kind: Kind, packets: u32, dry: bool) -> Result<(), Problem> {
    let mut victim = prepare(kind)?;
    victim.dry = dry;
    (0..packets).for_each(|_| kind.packet(&mut victim));
    Ok(())
}

fn prepare(kind: Kind) -> Result<Victim, Problem> {
    let broken = || {
        let who = format!("Gannet under {}", kind.name());
        crate::in_process::tally::broken(&who, "no connection", "report it: this is a fault")
    };
    kind.prepare().ok_or_else(broken)
}

fn answers(kind: Kind) -> Result<f64, Problem> {
    let mut victim = prepare(kind)?;
    let before = victim.sent();
    (0..STRETCH.0).for_each(|_| kind.packet(&mut victim));
    Ok((victim.sent() - before) as f64 / f64::from(STRETCH.0))
}

/// Nanoseconds of a packet, and how many times those of an ordinary one.
fn timed(
    kind: Kind,
    ordinary: Option<Kind>,
) -> Result<(Option<Summary>, Option<Summary>), Problem> {
    let (mut over, mut under) = (Vec::new(), Vec::new());
    for _ in 0..STRETCH.1 {
        under.push(stretch(ordinary.unwrap_or(kind))?);
        over.push(stretch(kind)?);
    }
    let times = ordinary.and_then(|_| Summary::of_ratios(&over, &under));
    Ok((Summary::of(over), times))
}

fn stretch(kind: Kind) -> Result<f64, Problem> {
    let mut victim = prepare(kind)?;
    let begin = cpu_seconds();
    (0..STRETCH.0).for_each(|_| kind.packet(&mut victim));
    Ok((cpu_seconds() - begin) * 1e9 / f64::from(STRETCH.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind goes on for as long as it is measured, and a host that is attacked is alive.
    #[test]
    fn every_kind_goes_on() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            let mut victim = prepare(kind).unwrap();
            let before = victim.sent();
            (0..RUNS[1]).for_each(|_| kind.packet(&mut victim));
            let sent = victim.sent() - before;
            assert!(sent <= 3 * u64::from(RUNS[1]), "{kind:?} {sent}");
            if let Some(id) = victim.tcp {
                assert!(victim.stack.tcp_info(id).is_some(), "{kind:?}");
            }
        }
    }
}
