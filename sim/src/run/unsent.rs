//! What was planned and never sent: its application was down, or had not started.

use crate::judge::Sent;
use model::app::Planned as Send;
use model::base::Nanos;
use std::collections::BTreeSet;

/// Numbers of planned sends that nobody made; what repeats one of them is no copy.
#[derive(Clone, Debug, Default)]
pub struct Unsent(BTreeSet<u32>);

impl Unsent {
    /// Nobody is there to make this send.
    pub fn note(&mut self, send: &Send) {
        // A copy that is not sent either leaves its original to the next one.
        if send.copy_of.is_none() {
            self.0.insert(send.number);
        }
    }
    /// What the ledger says of a send that is made now: flags of [`Sent`].
    pub fn flags(&mut self, send: &Send) -> u8 {
        let repeats = send.copy_of.is_some_and(|original| !self.0.remove(&original));
        let flag = |on, bit| if on { bit } else { 0 };
        flag(send.poison, Sent::POISON)
            | flag(send.late_by > Nanos::ZERO, Sent::LATE)
            | flag(send.held > Nanos::ZERO, Sent::OUT_OF_ORDER)
            | flag(repeats, Sent::RESENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::{EventTime, SimTime};

    fn send(number: u32, copy_of: Option<u32>) -> Send {
        Send {
            at: SimTime::ZERO,
            number,
            event_id: 7,
            event_time: EventTime(0),
            key: 0,
            bytes: 100,
            cols: [0; 4],
            poison: number == 9,
            late_by: Nanos::ZERO,
            held: Nanos::ZERO,
            copy_of,
        }
    }

    #[test]
    fn the_first_that_is_sent_of_an_event_is_no_copy() {
        let mut unsent = Unsent::default();
        assert_eq!(unsent.flags(&send(1, Some(0))), Sent::RESENT, "the original was sent");
        unsent.note(&send(2, None));
        unsent.note(&send(3, Some(2)));
        assert_eq!([4, 5].map(|number| unsent.flags(&send(number, Some(2)))), [0, Sent::RESENT]);
        assert_eq!(unsent.flags(&send(9, Some(2))), Sent::RESENT | Sent::POISON);
    }
}
