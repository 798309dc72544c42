//! The shuffle of ghosts: a run under other ledger numbers is the same run.
//!
//! The model carries a row's ledger number and must never look at it. `sim replay` gives every row of the second run
//! another number; whatever looks at one then shows as a difference of the chains. The judge alone needs the true
//! numbers: rows are given them back at its door, so that the outcome must be the same as well.

use model::base::{Batch, Domain, Ghost, Row, Streams};
use std::sync::Arc;

/// A permutation of all ledger numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// Odd, hence invertible modulo 2^32.
    factor: u32,
    inverse: u32,
    add: u32,
}

impl Shuffle {
    /// The permutation of a key.
    pub fn new(key: u64) -> Self {
        let mut stream = Streams(key).stream(Domain::Workload, 0, "shuffle of ghosts");
        loop {
            let factor = stream.bits() as u32 | 1;
            let shuffle = Self { factor, inverse: inverse(factor), add: stream.bits() as u32 };
            // The number that would become `Ghost::NONE` must be one that no run reaches.
            if shuffle.number(u32::MAX) >= 1 << 31 {
                return shuffle;
            }
        }
    }
    /// What stands in a row for a ledger number.
    pub const fn ghost(self, number: u32) -> Ghost {
        Ghost::new(number.wrapping_mul(self.factor).wrapping_add(self.add))
    }
    const fn number(self, ghost: u32) -> u32 {
        ghost.wrapping_sub(self.add).wrapping_mul(self.inverse)
    }
    /// The row as the judge must see it: with the true number.
    pub const fn opened_row(self, row: &Row) -> Row {
        Row { ghost: self.true_ghost(row.ghost), ..*row }
    }
    const fn true_ghost(self, ghost: Ghost) -> Ghost {
        if ghost.open() == Ghost::NONE.open() { ghost } else { Ghost::new(self.number(ghost.open())) }
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
                assert_ne!(ghost, Ghost::NONE);
                assert_eq!(shuffle.number(ghost.open()), n);
            }
        }
        assert_ne!(Shuffle::new(1).ghost(5), Shuffle::new(2).ghost(5));
    }
}
