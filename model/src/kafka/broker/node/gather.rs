//! A request of another broker about several things, each decided at its own time: the answer leaves with the last one.

use crate::base::TopicPartition;
use crate::kafka::ErrorCode;
use std::collections::BTreeMap;

/// Errors by partition, of each thing asked about.
pub(super) type Results = Vec<Vec<(TopicPartition, ErrorCode)>>;

#[derive(Clone, Debug)]
struct Gathered {
    results: Results,
    missing: usize,
}

/// Requests without an answer, by token.
#[derive(Clone, Debug, Default)]
pub(super) struct Gather {
    requests: BTreeMap<u64, Gathered>,
    done: Vec<(u64, Results)>,
}

impl Gather {
    /// A request about `partitions`, in order.
    pub(super) fn begin<'a>(&mut self, token: u64, partitions: impl Iterator<Item = &'a Vec<TopicPartition>>) {
        let unknown = |tp: &TopicPartition| (*tp, ErrorCode::UnknownServerError);
        let results: Results = partitions.map(|of| of.iter().map(unknown).collect()).collect();
        let missing = results.iter().map(Vec::len).sum();
        if missing == 0 {
            self.done.push((token, results));
        } else {
            self.requests.insert(token, Gathered { results, missing });
        }
    }
    /// One partition of one thing is decided.
    pub(super) fn decided(&mut self, token: u64, thing: usize, partition: usize, error: ErrorCode) {
        let Some(request) = self.requests.get_mut(&token) else { return };
        request.results[thing][partition].1 = error;
        request.missing -= 1;
        if request.missing == 0
            && let Some(request) = self.requests.remove(&token)
        {
            self.done.push((token, request.results));
        }
    }
    /// The requests that are decided.
    pub(super) fn take_done(&mut self) -> Vec<(u64, Results)> {
        std::mem::take(&mut self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_leaves_with_the_last_decision() {
        let mut g = Gather::default();
        let (a, b) = (TopicPartition::new(0, 0), TopicPartition::new(0, 1));
        g.begin(1, [vec![a, b], vec![a]].iter());
        g.decided(1, 0, 1, ErrorCode::None);
        g.decided(1, 1, 0, ErrorCode::NotLeaderOrFollower);
        assert!(g.take_done().is_empty());
        g.decided(1, 0, 0, ErrorCode::None);
        let results = vec![vec![(a, ErrorCode::None), (b, ErrorCode::None)], vec![(a, ErrorCode::NotLeaderOrFollower)]];
        assert_eq!(g.take_done(), [(1, results)]);
    }
}
