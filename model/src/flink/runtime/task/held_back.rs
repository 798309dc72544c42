//! Records that an experiment holds back at a source, to see what their coming later changes. A fork of a run asks for it, by a
//! signal; nothing in an ordinary run does.

use crate::base::{HoldBack, Offset};
use crate::kafka::client::Slice;
use std::collections::VecDeque;

/// Records of a source that are handed on only when they are let go.
#[derive(Clone, Debug)]
pub(super) struct HeldBack {
    what: HoldBack,
    aside: VecDeque<Slice>,
    gone: bool,
    /// Behind the foremost record of the partition that was handed on.
    reached: Offset,
    /// Records set aside that have not been handed on.
    left: u64,
}
impl HeldBack {
    pub(super) fn new(what: HoldBack) -> Self {
        Self { what, aside: VecDeque::new(), gone: false, reached: Offset(0), left: 0 }
    }
    /// Takes what is held back out of a batch.
    pub(super) fn set_aside(&mut self, batch: &mut VecDeque<Slice>) {
        if self.gone || batch.iter().all(|slice| slice.tp != self.what.tp) {
            return;
        }
        for slice in std::mem::take(batch) {
            if slice.tp != self.what.tp {
                batch.push_back(slice);
                continue;
            }
            let held = |at: u32| self.what.holds(slice.base.plus(i64::from(at)));
            let mut from = slice.from;
            while from < slice.to {
                let alike = (from..slice.to).take_while(|at| held(*at) == held(from)).count() as u32;
                let run = Slice { from, to: from + alike, ..slice.clone() };
                if held(from) {
                    self.left += u64::from(alike);
                    self.aside.push_back(run);
                } else {
                    batch.push_back(run);
                }
                from += alike;
            }
        }
    }
    /// What was set aside comes next, in order.
    pub(super) fn let_go(&mut self, batch: &mut VecDeque<Slice>) {
        self.gone = true;
        std::mem::take(&mut self.aside).into_iter().rev().for_each(|slice| batch.push_front(slice));
    }
    /// Where the split stands after these records: a restore begins at the first that was held back, and gives those again that
    /// went ahead of it.
    pub(super) fn position(&mut self, taken: &Slice) -> Offset {
        if taken.tp != self.what.tp {
            return taken.next();
        }
        if taken.first() < self.reached {
            self.left -= u64::from(taken.records()).min(self.left);
        }
        self.reached = self.reached.max(taken.next());
        match self.aside.front() {
            Some(first) => first.first(),
            None if self.left > 0 => taken.next().min(self.reached),
            None => self.reached,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Batch, ProducerTag, Row, TopicPartition};
    use std::sync::Arc;

    const P: [TopicPartition; 2] = [TopicPartition::new(0, 0), TopicPartition::new(0, 1)];

    fn slice(tp: TopicPartition, base: i64, rows: usize) -> Slice {
        let all = vec![Row::default(); rows].into();
        let batch = Arc::new(Batch::data(all, Arc::new([]), ProducerTag::NONE, false));
        Slice { tp, base: Offset(base), from: 0, to: rows as u32, batch }
    }
    fn spans(batch: &VecDeque<Slice>) -> Vec<(u16, i64, i64)> {
        batch.iter().map(|s| (s.tp.partition, s.first().0, s.next().0)).collect()
    }

    #[test]
    fn what_is_held_back_comes_when_it_is_let_go() {
        let what = HoldBack { job: 0, tp: P[0], from: Offset(12), to: Offset(i64::MAX), ahead: Some(Offset(15)) };
        let mut held = HeldBack::new(what);
        let mut batch: VecDeque<_> = [slice(P[0], 10, 5), slice(P[1], 0, 3), slice(P[0], 15, 4)].into();
        held.set_aside(&mut batch);
        assert_eq!(spans(&batch), [(0, 10, 12), (1, 0, 3), (0, 15, 16)]);
        let positions: Vec<_> = batch.iter().map(|s| held.position(s).0).collect();
        assert_eq!(positions, [12, 3, 12], "a restore reads what is held back again");
        batch.clear();
        held.let_go(&mut batch);
        assert_eq!(spans(&batch), [(0, 12, 15), (0, 16, 19)]);
        let positions: Vec<_> = batch.iter().map(|s| held.position(s).0).collect();
        assert_eq!(positions[1], 19);
        let mut later: VecDeque<_> = [slice(P[0], 19, 2)].into();
        held.set_aside(&mut later);
        assert_eq!(spans(&later), [(0, 19, 21)]);
        assert_eq!(held.position(&later[0]).0, 21);
    }

    #[test]
    fn one_record_alone_lets_those_behind_it_pass() {
        let what = HoldBack { job: 0, tp: P[0], from: Offset(1), to: Offset(2), ahead: None };
        let mut held = HeldBack::new(what);
        let mut batch: VecDeque<_> = [slice(P[0], 0, 4)].into();
        held.set_aside(&mut batch);
        assert_eq!(spans(&batch), [(0, 0, 1), (0, 2, 4)]);
        assert_eq!(batch.iter().map(|s| held.position(s).0).collect::<Vec<_>>(), [1, 1]);
        batch.clear();
        held.let_go(&mut batch);
        assert_eq!((held.position(&batch[0]).0, held.position(&slice(P[0], 4, 1)).0), (4, 5));
    }
}
