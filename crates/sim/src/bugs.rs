//! Planted bugs: each mistake that can be made on purpose in the stack is played with seeds until a
//! judge finds it. What is not found asks for a better judge, or for a seed that goes there.

use gannet_stack::planted::{Bug, plant};

use crate::sweep;

/// Seeds played together.
const TOGETHER: u64 = 8;

/// What became of a mistake.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The mistake.
    pub bug: Bug,
    /// The first seed that shows it, and what the judge says.
    pub found: Option<(u64, String)>,
    /// Seeds that were played.
    pub played: u64,
}

/// Makes every mistake whose name is `wanted`, one at a time, and plays at most `seeds` seeds with
/// each; `seen` is told of each as it is found or not.
pub fn hunt_all(
    wanted: impl Fn(&str) -> bool,
    seeds: u64,
    jobs: usize,
    mut seen: impl FnMut(&Hunt),
) -> Vec<Hunt> {
    let bugs = Bug::ALL.iter().filter(|bug| wanted(&format!("{bug:?}")));
    let hunts = bugs.map(|bug| {
        let hunt = hunt(*bug, seeds, jobs);
        seen(&hunt);
        hunt
    });
    hunts.collect()
}

/// Makes one mistake and plays at most `seeds` seeds with it.
pub fn hunt(bug: Bug, seeds: u64, jobs: usize) -> Hunt {
    let (mut found, mut played) = (None, 0);
    while found.is_none() && played < seeds {
        let count = TOGETHER.min(seeds - played);
        plant(Some(bug));
        let summary = sweep::many(played, count, jobs, |_| ());
        plant(None);
        // what fails without the mistake shows nothing
        let mut shown = summary.failures.into_iter();
        found = shown.find(|(seed, _)| sweep::one(*seed).failures.is_empty());
        played += count;
    }
    Hunt { bug, found, played }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_bug_is_found_and_leaves_nothing_behind() {
        let hunt = hunt(Bug::EchoMissing, 200, 2);
        assert!(hunt.found.is_some(), "{hunt:?}");
        let again = hunt.found.map(|(seed, _)| sweep::one(seed).failures);
        assert_eq!(again, Some(Vec::new()));
    }
}
