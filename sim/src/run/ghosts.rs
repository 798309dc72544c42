//! The shuffle of ghosts: a run under other ledger numbers is the same run.
//!
//! The model carries a row's ledger number and must never look at it. `sim replay` gives every row of the second run
//! another number; whatever looks at one then shows as a difference of the chains. The judge alone needs the true
//! numbers: rows are given them back at its door, so that the outcome must be the same as well.

use model::base::{Aside, Batch, Decision, Domain, Fold, Ghost, Row, Streams};
use std::sync::Arc;

/// How many numbers a ledger has room for.
const LEDGER: u32 = 1 << 31;

/// A permutation of all ledger numbers; rows made of many are numbered from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// Odd, hence invertible modulo 2^31.
    factor: u32,
    inverse: u32,
    add: u32,
    /// Where rows made of many begin.
    folds: u32,
}

impl Shuffle {
    /// The permutation of a key.
    pub fn new(key: u64) -> Self {
        let mut stream = Streams(key).stream(Domain::Workload, 0, "shuffle of ghosts");
        let factor = stream.bits() as u32 | 1;
        let (add, folds) = (stream.bits() as u32, stream.bits() as u32);
        Self { factor, inverse: inverse(factor), add, folds }
    }
    /// Where the numbers of rows made of many begin.
    pub const fn folds(self) -> u32 {
        self.folds
    }
    /// What stands in a row for a ledger number.
    pub const fn ghost(self, number: u32) -> Ghost {
        Ghost::new(number.wrapping_mul(self.factor).wrapping_add(self.add) % LEDGER)
    }
    const fn number(self, ghost: u32) -> u32 {
        ghost.wrapping_sub(self.add).wrapping_mul(self.inverse) % LEDGER
    }
    /// The ghost as the judge must see it.
    pub const fn open(self, ghost: Ghost) -> Ghost {
        if ghost.in_ledger() { Ghost::new(self.number(ghost.open())) } else { ghost }
    }
    /// What was said aside, as the judge must hear it.
    pub fn overheard(self, aside: &Aside) -> Aside {
        let all = |ghosts: &[Ghost]| ghosts.iter().map(|g| self.open(*g)).collect();
        match aside {
            Aside::Fold(f) => Aside::Fold(Fold { members: all(&f.members), ..f.clone() }),
            Aside::Decided(d) => Aside::Decided(Decision { rows: all(&d.rows), ..d.clone() }),
        }
    }
    /// The row as the judge must see it: with the true number.
    pub const fn opened_row(self, row: &Row) -> Row {
        Row { ghost: self.open(row.ghost), ..*row }
    }
    /// The batch as the judge must see it: with the true numbers.
    pub fn opened(self, batch: &Batch) -> Arc<Batch> {
        let rows = batch.rows.iter().map(|row| self.opened_row(row)).collect();
        Arc::new(Batch { rows, ..batch.clone() })
    }
}

/// Inverse of an odd number modulo 2^32: Newton's iteration doubles the correct bits, 3 to begin with.
fn inverse(odd: u32) -> u32 {
    (0..4).fold(odd, |x, _| x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_none_stays() {
        for key in 0..50 {
            let shuffle = Shuffle::new(key);
            for n in [0, 1, 2, 77, 1_000_000, (1 << 31) - 1] {
                let ghost = shuffle.ghost(n);
                assert!(ghost.in_ledger());
                assert_eq!(shuffle.number(ghost.open()), n);
            }
        }
        assert_ne!(Shuffle::new(1).ghost(5), Shuffle::new(2).ghost(5));
    }
}
