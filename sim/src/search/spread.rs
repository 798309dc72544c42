//! Where a spread comes from: the share of a figure's variance that a factor explains, which is the variance of the mean under
//! each of its values over the variance of all. Nothing simulated depends on these numbers.

use serde::Serialize;
use std::collections::BTreeMap;

/// A factor with at most so many values is taken value by value.
const VALUES: usize = 16;
/// Any other in so many parts with as many runs each.
const PARTS: usize = 10;

/// How much of a spread a factor explains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The factor; several with ` + ` between them are taken together.
    pub factor: String,
    /// Runs that have it.
    pub runs: usize,
    /// Groups of runs that it makes.
    pub groups: usize,
    /// The share, from 0 to 1 (eta squared).
    pub share: f64,
    /// The same less what as many groups drawn at random would explain (epsilon squared).
    pub adjusted: f64,
}

/// The group of each value: by itself, or by its rank.
fn groups(values: &[i64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let mut different = sorted.clone();
    different.dedup();
    let by_value = different.len() <= VALUES;
    let group = |value: &i64| {
        if by_value {
            return different.partition_point(|d| d < value);
        }
        // Equal values stand together, with the first of them.
        sorted.partition_point(|s| s < value) * PARTS / sorted.len()
    };
    values.iter().map(group).collect()
}

/// The share of the spread of `figure` that factors explain together: values of each by run, in the order of the figures.
/// `None` with fewer than three runs, without a spread, or with a group for each run.
pub fn share(name: &str, figure: &[i64], factors: &[Vec<i64>]) -> Option<Share> {
    let runs = figure.len();
    let mut by_group: BTreeMap<Vec<usize>, Vec<i64>> = BTreeMap::new();
    let of: Vec<Vec<usize>> = factors.iter().map(|values| groups(values)).collect();
    for (run, value) in figure.iter().enumerate() {
        by_group.entry(of.iter().map(|groups| groups[run]).collect()).or_default().push(*value);
    }
    let mean = |values: &[i64]| values.iter().map(|v| *v as f64).sum::<f64>() / values.len() as f64;
    let all = mean(figure);
    let total: f64 = figure.iter().map(|v| (*v as f64 - all) * (*v as f64 - all)).sum();
    if runs < 3 || total <= 0.0 || by_group.len() >= runs {
        return None;
    }
    let between: f64 = by_group.values().map(|g| g.len() as f64 * (mean(g) - all) * (mean(g) - all)).sum();
    let share = between / total;
    let adjusted = 1.0 - (1.0 - share) * (runs - 1) as f64 / (runs - by_group.len()) as f64;
    Some(Share { factor: name.into(), runs, groups: by_group.len(), share, adjusted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_everything_explains_everything_and_what_decides_nothing_nothing() {
        let figure: Vec<i64> = (0..400).map(|i| (i % 4) * 100).collect();
        let of = |values: Vec<i64>| share("x", &figure, &[values]).unwrap();
        let all = of((0..400).map(|i| i % 4).collect());
        assert!(all.share > 0.999_999 && all.adjusted > 0.999_999 && all.groups == 4, "{all:?}");
        let none = of((0..400).map(|i| i / 4 % 2).collect());
        assert!(none.share < 1e-9 && none.adjusted <= 0.0, "{none:?}");
        // Half of a figure that is the sum of two equal parts.
        let sum: Vec<i64> = (0..400).map(|i| i % 2 + i / 2 % 2).collect();
        let half = share("x", &sum, &[(0..400).map(|i| i % 2).collect()]).unwrap();
        assert!((half.share - 0.5).abs() < 1e-9, "{half:?}");
        let both = share("x + y", &sum, &[(0..400).map(|i| i % 2).collect(), (0..400).map(|i| i / 2 % 2).collect()]);
        assert!(both.unwrap().share > 0.999_999);
    }

    #[test]
    fn many_values_are_taken_in_tenths_and_equal_ones_together() {
        assert_eq!(groups(&[5, 7, 5]), [0, 1, 0]);
        let values: Vec<i64> = (0..100).collect();
        let tenths = groups(&values);
        assert_eq!((tenths[0], tenths[9], tenths[10], tenths[99]), (0, 0, 1, 9));
        let half: Vec<i64> = (0..100).map(|i| if i < 50 { 0 } else { i }).collect();
        assert!(groups(&half)[..50].iter().all(|g| *g == 0));
    }

    #[test]
    fn without_a_spread_there_is_nothing_to_explain() {
        assert_eq!(share("x", &[3, 3, 3, 3], &[vec![1, 2, 1, 2]]), None);
        assert_eq!(share("x", &[1, 2, 3], &[vec![1, 2, 3]]), None);
    }
}
