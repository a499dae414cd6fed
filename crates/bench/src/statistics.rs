//! Medians and paired ratios.
//!
//! Machines drift: a neighbour wakes up, a clock slows down, and the same loop runs at half the
//! speed for seconds. Figures are therefore taken in pairs that lie side by side in time, each pair
//! gives one ratio, and only then a median is taken. The median of ratios is not the ratio of
//! medians.

use serde::{Deserialize, Serialize};

/// Median with the smallest and the largest sample, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The middle sample, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
}

impl Summary {
    /// The summary of all finite samples; `None` when there is none.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.into_iter().filter(|s| s.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        Some(Self {
            median: (lower + upper) / 2.0,
            min,
            max,
        })
    }

    /// The summary of `over[i] / under[i]`: one ratio for each pair, in which both samples were
    /// taken side by side.
    pub fn of_ratios(over: &[f64], under: &[f64]) -> Option<Self> {
        Self::of(over.iter().zip(under).map(|(over, under)| over / under))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even() {
        let odd = Summary::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            odd,
            Summary {
                median: 2.0,
                min: 1.0,
                max: 3.0
            }
        );
        let even = Summary::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(
            even,
            Summary {
                median: 2.5,
                min: 1.0,
                max: 4.0
            }
        );
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([f64::NAN]), None);
    }

    #[test]
    fn ratios_are_taken_in_pairs() {
        // The second pair ran while the machine was slow: both figures are a tenth, the ratio is
        // the same.
        let ratio = Summary::of_ratios(&[20.0, 2.0, 22.0], &[10.0, 1.0, 10.0]).unwrap();
        assert_eq!(
            ratio,
            Summary {
                median: 2.0,
                min: 2.0,
                max: 2.2
            }
        );
    }

    #[test]
    fn a_pair_without_a_figure_counts_for_nothing() {
        let ratio = Summary::of_ratios(&[1.0, 3.0], &[0.0, 1.0]).unwrap();
        assert_eq!(ratio.median, 3.0);
    }
}
