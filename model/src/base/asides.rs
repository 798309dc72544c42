//! What a process says about ghosts, to the judge alone.

use super::Ghost;
use std::sync::Arc;

/// Something said aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aside {
    /// A row was made of many (a window's firing, a partial result).
    Fold(Fold),
    /// An operator that judges rows by event time has taken some in; or a writer that may write them again.
    Decided(Decision),
}
/// Where in a job's life an operator is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// The job, by number.
    pub job: u16,
    /// The vertex.
    pub vertex: u16,
    /// The operator's place in the vertex's chain.
    pub operator: u16,
    /// The subtask.
    pub subtask: u16,
    /// Its attempt.
    pub attempt: u32,
    /// The checkpoint that the attempt began with; 0 for none.
    pub restored: i64,
    /// The watermark that the operator began with: the least, if it restores none.
    pub began: i64,
    /// The last checkpoint whose barrier has passed; 0 before the first.
    pub last: i64,
}
/// A row made of many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Its ghost.
    pub ghost: Ghost,
    /// Those of the rows, which may themselves be made of many.
    pub members: Arc<[Ghost]>,
    /// Who made it.
    pub at: Point,
    /// The first watermark of the attempt made it.
    pub first: bool,
}
/// Rows that an operator took at one watermark of its own: whether they are late was decided by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Who.
    pub at: Point,
    /// The watermark; of a writer the least.
    pub watermark: i64,
    /// The rows, in order.
    pub rows: Arc<[Ghost]>,
}

/// What was said aside in a step. It stands beside the step's effects and not among them: another lane may send a row before
/// the lane that made it is done, so the judge is told at once; and it is in no digest, no trace and no crash point.
#[derive(Clone, Debug, Default)]
pub struct Asides {
    /// Rows made of many so far.
    folds: u32,
    said: Vec<Aside>,
}

impl Asides {
    /// Rows made of many begin at another number: a run under these must be the same run.
    pub const fn numbered_from(first: u32) -> Self {
        Self { folds: first % Ghost::FOLDS, said: Vec::new() }
    }
    /// A ghost for a row made of `members`.
    pub fn fold(&mut self, members: Arc<[Ghost]>, at: Point, first: bool) -> Ghost {
        let ghost = Ghost::fold(self.folds);
        self.folds = (self.folds + 1) % Ghost::FOLDS;
        self.say(Aside::Fold(Fold { ghost, members, at, first }));
        ghost
    }
    /// Says something.
    pub fn say(&mut self, aside: Aside) {
        self.said.push(aside);
    }
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.said.is_empty()
    }
    /// What was said since the last time, in order.
    pub fn take(&mut self) -> Vec<Aside> {
        std::mem::take(&mut self.said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fold_has_a_ghost_of_its_own_outside_the_ledger() {
        for first in [0, 7, u32::MAX - 1, (1 << 31) - 2, (1 << 31) - 1] {
            let mut asides = Asides::numbered_from(first);
            let members: [Arc<[Ghost]>; 3] = [[].into(), [Ghost::new(5)].into(), [].into()];
            let ghosts = members.map(|members| asides.fold(members, Point::default(), false));
            assert!(ghosts.iter().all(|g| !g.in_ledger() && *g != Ghost::NONE), "{ghosts:?}");
            assert!(ghosts[0] != ghosts[1] && ghosts[1] != ghosts[2] && ghosts[0] != ghosts[2]);
            let second = Fold { ghost: ghosts[1], members: [Ghost::new(5)].into(), at: Point::default(), first: false };
            assert_eq!(asides.take()[1], Aside::Fold(second));
            assert!(asides.is_empty());
        }
    }
}
