//! The transaction of a producer at work: which coordinator request leaves, what its answer does (findings 1 and 2 of the
//! librdkafka recordings).

use super::errors::{RdError, TxnAction, TxnApi, retry_after};
use super::partition::{Membership, Partition, retry_backoff};
use super::producer::{RdProducer, Tag};
use super::txn::{CallError, TxnState};
use crate::base::Millis;
use crate::kafka::ErrorCode;
use crate::kafka::coordinator::group::messages::GroupReply;
use crate::kafka::messages::{Reply, Request};
use crate::kafka::txn_messages::CoordinatorReply;

impl RdProducer {
    pub(super) fn txn_due(&mut self, now: Millis) {
        let Some(txn) = &mut self.txn else { return };
        let idle = self.partitions.values().all(Partition::idle);
        match txn.state {
            TxnState::Flushing if idle && txn.failed_records > 0 => {
                self.fail_transaction(RdError::Inconsistent, false);
            }
            TxnState::Flushing if idle && txn.registered => txn.enter(TxnState::Committing),
            TxnState::Flushing if idle => self.transaction_over(),
            TxnState::Draining if idle && !txn.asking(TxnApi::AddPartitions) && !txn.asking(TxnApi::AddOffsets) => {
                if txn.registered {
                    txn.enter(TxnState::Aborting);
                } else {
                    self.aborted();
                }
            }
            _ => {}
        }
        let Some(txn) = &mut self.txn else { return };
        while let Some((api, request)) = txn.wants(now, self.pid) {
            let handle = self.net.coordinator(&self.config);
            txn.sent(api);
            let deadline = now + self.config.socket_timeout();
            self.net.send(handle, Tag::Txn(api), Request::Coordinator(request), deadline);
        }
    }
    fn aborted(&mut self) {
        let Some(txn) = &mut self.txn else { return };
        if txn.bump {
            txn.enter(TxnState::Bumping);
        } else {
            self.transaction_over();
        }
    }
    fn transaction_over(&mut self) {
        let Some(txn) = &mut self.txn else { return };
        txn.enter(TxnState::Ready);
        txn.reset();
        self.partitions.values_mut().for_each(|p| p.membership = Membership::Out);
        self.end_call(Ok(()));
    }

    pub(super) fn txn_answered(
        &mut self,
        _: super::broker::Handle,
        api: TxnApi,
        result: Result<Reply, RdError>,
        now: Millis,
    ) {
        let Some(txn) = &mut self.txn else { return };
        let error = match &result {
            Err(error) => Some(*error),
            // Offsets of a member: the same answer in the group's own words.
            Ok(Reply::Group(GroupReply::TxnOffsetCommit(_, list))) => {
                list.iter().find(|(_, e)| !e.is_ok()).map(|(_, e)| RdError::Code(*e))
            }
            Ok(Reply::Coordinator(reply)) => match reply {
                CoordinatorReply::InitProducerId { error, .. }
                | CoordinatorReply::AddOffsets(error)
                | CoordinatorReply::EndTxn { error, .. } => (!error.is_ok()).then_some(RdError::Code(*error)),
                CoordinatorReply::AddPartitions(list) | CoordinatorReply::TxnOffsetCommit(list) => {
                    list.iter().find(|(_, e)| !e.is_ok()).map(|(_, e)| RdError::Code(*e))
                }
                CoordinatorReply::Find { .. } => Some(RdError::Code(ErrorCode::UnknownServerError)),
            },
            Ok(_) => Some(RdError::Code(ErrorCode::UnknownServerError)),
        };
        if let Ok(Reply::Coordinator(CoordinatorReply::AddPartitions(list))) = &result
            && txn.may_send()
        {
            for (tp, _) in list.iter().filter(|(_, e)| e.is_ok()) {
                txn.pending.retain(|p| p != tp);
                if let Some(p) = self.partitions.get_mut(tp) {
                    p.membership = Membership::In;
                }
            }
        }
        if txn.is_stray(api, error) {
            return;
        }
        let (config, stream) = (&self.config, self.net.stream());
        let wait = |action, tries| match action {
            TxnAction::Retry(100) => retry_backoff(tries, config, stream),
            // The look-up, then the connection.
            TxnAction::Find(600) => Millis(500) + retry_backoff(1, config, stream),
            action => retry_after(action),
        };
        match txn.settled(api, error, now, wait) {
            None => self.txn_succeeded(api, result),
            Some(action) => self.txn_failed(api, action, error.unwrap_or(RdError::Fatal), now),
        }
    }
    fn txn_succeeded(&mut self, api: TxnApi, result: Result<Reply, RdError>) {
        let Some(txn) = &mut self.txn else { return };
        match (api, txn.state, result) {
            (
                TxnApi::InitProducerId,
                TxnState::Initializing | TxnState::Bumping,
                Ok(Reply::Coordinator(CoordinatorReply::InitProducerId { producer, epoch, .. })),
            ) => {
                self.assign((producer, epoch));
                self.transaction_over();
            }
            (TxnApi::Commit, TxnState::Committing, _) => self.transaction_over(),
            (TxnApi::Abort, TxnState::Aborting, _) => self.aborted(),
            (TxnApi::AddOffsets, _, _) => {
                txn.registered = true;
                if let Some(offsets) = &mut txn.offsets {
                    offsets.added = true;
                }
            }
            (TxnApi::TxnOffsetCommit, TxnState::InTransaction, _) => {
                txn.offsets = None;
                self.end_call(Ok(()));
            }
            _ => {}
        }
    }
    fn txn_failed(&mut self, api: TxnApi, action: TxnAction, error: RdError, now: Millis) {
        let shown = if let RdError::Code(code) = error { RdError::of(code) } else { error };
        match action {
            TxnAction::Retry(_) => {}
            TxnAction::Find(_) if api == TxnApi::TxnOffsetCommit => self.coordinators.forget_group(),
            TxnAction::Find(_) => self.forget_coordinator(now),
            TxnAction::Fatal => self.raise_fatal(shown),
            TxnAction::DoneBump => {
                if let Some(txn) = &mut self.txn {
                    txn.bump = true;
                }
                self.aborted();
            }
            TxnAction::Abort | TxnAction::AbortBump => {
                let aborting = self.txn.as_ref().is_some_and(|t| t.state == TxnState::Aborting);
                if api == TxnApi::Abort && aborting {
                    if let Some(txn) = &mut self.txn {
                        txn.enter(TxnState::Abortable);
                        txn.error = Some(shown);
                    }
                    self.end_call(Err(CallError::abort(shown)));
                } else {
                    self.fail_transaction(shown, action == TxnAction::AbortBump);
                }
            }
        }
    }
}
