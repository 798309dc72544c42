//! Law of states: the log of an id moves along the edges of kafka.md 4.2, and producer id and epoch never go back (I-26, I-31).

use super::{History, at_odds, histories};
use crate::judge::{Evidence, Findings, Law, Violation};
use crate::world::Observer;
use model::kafka::coordinator::transaction::{TransactionLogValue, TransactionState as S};

/// The law.
#[derive(Clone, Debug, Default)]
pub struct StateLaw;

impl Observer for StateLaw {}

/// Whether a record of one state may follow one of another. The same again is a completion that two coordinators have
/// written, or a decision that came back as NOT_ENOUGH_REPLICAS_AFTER_APPEND and was written again.
const fn may_follow(from: S, to: S) -> bool {
    match to {
        S::Empty => matches!(from, S::Empty | S::CompleteCommit | S::CompleteAbort),
        S::Ongoing => matches!(from, S::Ongoing | S::Empty | S::CompleteCommit | S::CompleteAbort),
        S::PrepareCommit => matches!(from, S::Ongoing | S::PrepareCommit),
        S::PrepareAbort => {
            matches!(from, S::Ongoing | S::PrepareAbort | S::Empty | S::CompleteCommit | S::CompleteAbort)
        }
        S::CompleteCommit => matches!(from, S::PrepareCommit | S::CompleteCommit),
        S::CompleteAbort => matches!(from, S::PrepareAbort | S::CompleteAbort),
        S::Dead | S::PrepareEpochFence => false,
    }
}
/// Whether the epoch went back. Another producer id is a rotation.
fn went_back(from: &TransactionLogValue, to: &TransactionLogValue) -> bool {
    from.producer == to.producer && to.epoch < from.epoch
}

impl Law for StateLaw {
    const NAME: &'static str = "states";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        for history in histories(end) {
            check(end, &history, findings);
        }
    }
}
fn check(end: &Evidence<'_>, history: &History, findings: &mut Findings) {
    let name = end.cast.producers.get(history.id as usize).map_or("?", String::as_str);
    for pair in history.records.windows(2) {
        let [from, to] = pair else { continue };
        let mut say = |rule, text: String| {
            let excuse = at_odds(end, history, None);
            let (at, law, tp, event) = (end.now, StateLaw::NAME, Some(history.log), None);
            findings.add(Violation { at, law, rule, text, excuse, tp, event });
        };
        if !may_follow(from.state, to.state) {
            say("I-31", format!("{name}: {:?} in the log after {:?}", to.state, from.state));
        }
        if went_back(from, to) {
            say("I-26", format!("{name}: epoch {} in the log after {}", to.epoch, from.epoch));
        }
    }
}
