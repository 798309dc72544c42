//! What each producer's side of the account comes to, over all lives of its process.

use super::Cast;
use crate::world::Observer;
use model::base::{AbortedBy, Event, Layer, ProcessId, Shown, SimTime, TransactionFate};
use std::collections::BTreeMap;

/// Transactions of one fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// How many.
    pub transactions: u64,
    /// Rows in them.
    pub rows: u64,
}

/// The account of one producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Rows acknowledged; in a transaction: committed.
    pub acknowledged: u64,
    /// Rows that failed for good.
    pub failed: u64,
    /// Batches sent again.
    pub retries: u64,
    /// Clients that could do no more.
    pub fatal: u64,
    /// Why, by code.
    pub fatal_errors: BTreeMap<i16, u64>,
    /// Rows that its process had in memory, undecided, when it died.
    pub forgotten: u64,
    /// Committed.
    pub committed: Ended,
    /// Aborted.
    pub aborted: Ended,
    /// The producer died in the commit: nobody told it.
    pub unknown: Ended,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    senders: BTreeMap<ProcessId, u16>,
    accounts: Vec<Account>,
    /// Of instances of gatekeepers.
    keepers: BTreeMap<ProcessId, Account>,
    /// Transactions that a coordinator has aborted, by who wanted it.
    pub aborts: Aborts,
}
/// Transactions that a coordinator has aborted, by who wanted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aborts {
    /// The producer.
    pub client: u64,
    /// Nobody: the time was over.
    pub expiry: u64,
    /// The next producer with the same id.
    pub init: u64,
}
impl Tally {
    /// For this cast.
    pub fn new(cast: &Cast) -> Self {
        Self {
            senders: cast.senders.clone(),
            accounts: vec![Account::default(); cast.producers.len()],
            keepers: cast.keepers.keys().map(|process| (*process, Account::default())).collect(),
            aborts: Aborts::default(),
        }
    }
    /// The account of a producer, by number.
    pub fn of(&self, producer: u16) -> Account {
        self.accounts.get(usize::from(producer)).cloned().unwrap_or_default()
    }
    /// The account of an instance of a gatekeeper.
    pub fn of_keeper(&self, process: ProcessId) -> Account {
        self.keepers.get(&process).cloned().unwrap_or_default()
    }
    /// Which producer a process is.
    pub fn producer(&self, process: ProcessId) -> Option<u16> {
        self.senders.get(&process).copied()
    }
    /// Rows were forgotten with a process.
    pub fn forgotten(&mut self, producer: u16, rows: u64) {
        if let Some(account) = self.accounts.get_mut(usize::from(producer)) {
            account.forgotten += rows;
        }
    }
}

impl Observer for Tally {
    fn event(&mut self, _: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        if let Event::AbortDecided { by, .. } = event {
            let aborts = match by {
                AbortedBy::Client => &mut self.aborts.client,
                AbortedBy::Expiry => &mut self.aborts.expiry,
                AbortedBy::Init => &mut self.aborts.init,
            };
            *aborts += 1;
            return;
        }
        let producer = self.senders.get(&process).map(|p| usize::from(*p));
        let sender = producer.and_then(|p| self.accounts.get_mut(p));
        let Some(account) = sender.or_else(|| self.keepers.get_mut(&process)) else { return };
        match *event {
            Event::Retried { .. } => account.retries += 1,
            Event::ProducerFatal { error } => {
                account.fatal += 1;
                *account.fatal_errors.entry(error).or_default() += 1;
            }
            Event::TransactionEnded { fate, rows } => {
                let ended = match fate {
                    TransactionFate::Committed => &mut account.committed,
                    TransactionFate::Aborted => &mut account.aborted,
                    TransactionFate::Unknown => &mut account.unknown,
                };
                ended.transactions += 1;
                ended.rows += u64::from(rows);
            }
            _ => {}
        }
    }
    fn shown(&mut self, _: SimTime, _: ProcessId, shown: &Shown) {
        let (Layer::Acked(producer) | Layer::Failed(producer)) = shown.layer else { return };
        let Some(account) = self.accounts.get_mut(usize::from(producer)) else { return };
        let rows = &shown.batch.rows[shown.from as usize..shown.to as usize];
        let rows = rows.iter().filter(|r| r.ghost.in_ledger()).count() as u64;
        match shown.layer {
            Layer::Acked(_) => account.acknowledged += rows,
            _ => account.failed += rows,
        }
    }
}
