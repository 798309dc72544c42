//! What the coordinators' answers do (`TxnRequestHandler.handleResponse`; findings 1 of the recordings, kafka.md 7).

use super::{Body, Destination, GroupMetadata, Handler, IllegalMove, ProducerIdAndEpoch, State, TransactionManager};
use crate::base::{BrokerId, Millis, Offset, ProducerEpoch, ProducerId, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::java::batch::Failure;
use crate::kafka::client::java::errors::{is_fencing, is_retriable, names_wrong_coordinator};
use crate::kafka::messages::Reply;
use crate::kafka::txn_messages::{CoordinatorKey, CoordinatorReply};

/// The wait before AddPartitionsToTxn is tried again while the previous transaction is still being completed.
const CONCURRENT_BACKOFF: Millis = Millis(20);

type Moved = Result<(), IllegalMove>;

impl TransactionManager {
    /// Takes the answer to `handler`; `None` if its connection ended, or it was unanswered for too long.
    pub fn on_answer(&mut self, handler: Handler, reply: Option<&Reply>) -> Moved {
        let moved = self.answered(handler, reply);
        self.on_io_thread(moved)
    }
    fn answered(&mut self, handler: Handler, reply: Option<&Reply>) -> Moved {
        let Some(reply) = reply else {
            self.look_up(handler.destination(self.transactional.is_some()));
            self.retry(handler);
            return Ok(());
        };
        match (reply, handler.body.clone()) {
            (Reply::InitProducerId(r), _) => self.on_init(handler, r.error, r.producer, r.epoch),
            (Reply::Coordinator(reply), body) => match (reply, body) {
                (CoordinatorReply::Find { error, node, .. }, Body::Find(key)) => {
                    self.on_find(handler, key, *error, *node)
                }
                (CoordinatorReply::InitProducerId { error, producer, epoch }, _) => {
                    self.on_init(handler, *error, *producer, *epoch)
                }
                (CoordinatorReply::AddPartitions(errors), _) => self.on_add_partitions(handler, errors),
                (CoordinatorReply::AddOffsets(error), Body::AddOffsets(_, group, offsets)) => {
                    self.on_add_offsets(handler, *error, group, &offsets)
                }
                (CoordinatorReply::TxnOffsetCommit(errors), _) => self.on_commit_offsets(handler, errors),
                (CoordinatorReply::EndTxn { error, producer, epoch }, Body::End { commit, .. }) => {
                    let next = ProducerIdAndEpoch { id: *producer, epoch: *epoch };
                    self.on_end(handler, *error, next, commit)
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    // ---- the ways an answer can go

    fn end_fatally(&mut self, handler: &Handler, why: Failure) -> Moved {
        self.results.fail(handler.result, why);
        self.become_fatal(why);
        Ok(())
    }
    fn abortable(&mut self, handler: &Handler, why: Failure) -> Moved {
        self.results.fail(handler.result, why);
        self.become_abortable(why)
    }
    /// The coordinator has lost the producer: the epoch is raised after the abort, where that is possible.
    fn abortable_with_bump(&mut self, handler: &Handler, why: Failure) -> Moved {
        if !self.survives_lost_numbers() {
            return self.end_fatally(handler, why);
        }
        self.bump_required |= self.bumps_itself();
        self.abortable(handler, why)
    }
    /// Errors that every request to the transaction coordinator treats alike; `None` for the others.
    fn common(&mut self, handler: &Handler, error: ErrorCode) -> Option<Moved> {
        if names_wrong_coordinator(error) {
            self.look_up(Destination::Transaction);
            self.retry(handler.clone());
        } else if is_retriable(error) {
            self.retry(handler.clone());
        } else if is_fencing(error) {
            return Some(self.end_fatally(handler, Failure::Code(ErrorCode::ProducerFenced)));
        } else {
            return None;
        }
        Some(Ok(()))
    }
    /// The same for errors about the state of the transaction.
    fn common_in_transaction(&mut self, handler: &Handler, error: ErrorCode) -> Option<Moved> {
        let why = Failure::Code(error);
        match error {
            ErrorCode::TransactionalIdAuthorizationFailed | ErrorCode::InvalidTxnState => {
                Some(self.end_fatally(handler, why))
            }
            ErrorCode::InvalidProducerIdMapping if self.rules.unmapped_id_is_fatal => {
                Some(self.end_fatally(handler, why))
            }
            ErrorCode::InvalidProducerIdMapping | ErrorCode::UnknownProducerId => {
                Some(self.abortable_with_bump(handler, why))
            }
            ErrorCode::TransactionAbortable => Some(self.abortable(handler, why)),
            _ => None,
        }
    }

    // ---- one by one

    fn on_find(&mut self, handler: Handler, key: CoordinatorKey, error: ErrorCode, node: BrokerId) -> Moved {
        let why = Failure::Code(error);
        match error {
            ErrorCode::None => {
                match key {
                    CoordinatorKey::Transaction(_) => self.coordinators.transaction = Some(node),
                    CoordinatorKey::Group(_) => self.coordinators.group = Some(node),
                }
                Ok(())
            }
            e if is_retriable(e) => {
                self.retry(handler);
                Ok(())
            }
            ErrorCode::TransactionalIdAuthorizationFailed => self.end_fatally(&handler, why),
            ErrorCode::GroupAuthorizationFailed | ErrorCode::TransactionAbortable => self.abortable(&handler, why),
            _ => self.end_fatally(&handler, Failure::Unspecific),
        }
    }
    fn on_init(&mut self, handler: Handler, error: ErrorCode, id: ProducerId, epoch: ProducerEpoch) -> Moved {
        if error.is_ok() {
            self.producer = ProducerIdAndEpoch { id, epoch };
            self.move_to(State::Ready, None)?;
            if matches!(handler.body, Body::Init { bump: true, .. }) {
                self.sequences.reset();
            }
            self.results.done(handler.result);
            return Ok(());
        }
        if let Some(moved) = self.common(&handler, error) {
            return moved;
        }
        let why = Failure::Code(error);
        if why.is_authorization() {
            if self.rules.init_authorization_heals {
                return self.abortable(&handler, why);
            }
            return self.end_fatally(&handler, why);
        }
        match error {
            ErrorCode::TransactionAbortable => self.abortable(&handler, why),
            _ => self.end_fatally(&handler, Failure::Unspecific),
        }
    }
    fn on_add_partitions(&mut self, mut handler: Handler, errors: &[(TopicPartition, ErrorCode)]) -> Moved {
        handler.backoff = None;
        let (mut unauthorized, mut others) = (false, false);
        for (_, error) in errors {
            if *error == ErrorCode::ConcurrentTransactions && self.partitions.is_empty() {
                handler.backoff = Some(CONCURRENT_BACKOFF);
            }
            match error {
                ErrorCode::None => continue,
                ErrorCode::TopicAuthorizationFailed => unauthorized = true,
                error => {
                    if let Some(moved) = self.common(&handler, *error) {
                        return moved;
                    }
                    if let Some(moved) = self.common_in_transaction(&handler, *error) {
                        return moved;
                    }
                    others = true;
                }
            }
        }
        for (tp, _) in errors {
            self.pending_partitions.remove(tp);
        }
        if unauthorized {
            self.abortable(&handler, Failure::Code(ErrorCode::TopicAuthorizationFailed))
        } else if others {
            self.abortable(&handler, Failure::Unspecific)
        } else {
            self.partitions.extend(errors.iter().map(|(tp, _)| *tp));
            self.started = true;
            Ok(())
        }
    }
    fn on_add_offsets(
        &mut self,
        handler: Handler,
        error: ErrorCode,
        group: GroupMetadata,
        offsets: &[(TopicPartition, Offset)],
    ) -> Moved {
        if error.is_ok() {
            self.commit_offsets(handler.result, offsets, group);
            self.started = true;
            return Ok(());
        }
        if let Some(moved) = self.common(&handler, error) {
            return moved;
        }
        if let Some(moved) = self.common_in_transaction(&handler, error) {
            return moved;
        }
        match error {
            ErrorCode::GroupAuthorizationFailed => self.abortable(&handler, Failure::Code(error)),
            _ => self.end_fatally(&handler, Failure::Unspecific),
        }
    }
    fn on_commit_offsets(&mut self, handler: Handler, errors: &[(TopicPartition, ErrorCode)]) -> Moved {
        let mut looked_up = false;
        let mut moved = Ok(());
        for (tp, error) in errors {
            let why = Failure::Code(*error);
            moved = match error {
                ErrorCode::None => {
                    self.pending_offsets.remove(tp);
                    continue;
                }
                e if names_wrong_coordinator(*e) || *e == ErrorCode::RequestTimedOut => {
                    if !std::mem::replace(&mut looked_up, true) {
                        self.look_up(handler.destination(true));
                    }
                    continue;
                }
                ErrorCode::UnknownTopicOrPartition | ErrorCode::CoordinatorLoadInProgress => continue,
                e if is_retriable(*e) && self.rules.offsets_retry_all => continue,
                ErrorCode::GroupAuthorizationFailed | ErrorCode::FencedInstanceId | ErrorCode::TransactionAbortable => {
                    self.abortable(&handler, why)
                }
                ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration => {
                    self.abortable(&handler, Failure::CommitFailed)
                }
                e if is_fencing(*e) => self.end_fatally(&handler, Failure::Code(ErrorCode::ProducerFenced)),
                ErrorCode::TransactionalIdAuthorizationFailed | ErrorCode::UnsupportedForMessageFormat => {
                    self.end_fatally(&handler, why)
                }
                _ => self.end_fatally(&handler, Failure::Unspecific),
            };
            break;
        }
        moved?;
        if self.results.is_completed(handler.result) {
            self.pending_offsets.clear();
        } else if self.pending_offsets.is_empty() {
            self.results.done(handler.result);
        } else {
            self.retry(handler);
        }
        Ok(())
    }
    fn on_end(&mut self, handler: Handler, error: ErrorCode, next: ProducerIdAndEpoch, commit: bool) -> Moved {
        if error.is_ok() {
            // From version 5 on the answer carries the epoch of the next transaction (KIP-890).
            if next.id != ProducerId::NONE {
                self.producer = next;
                self.sequences.reset();
            }
            self.transaction_ended()?;
            self.results.done(handler.result);
            return Ok(());
        }
        if let Some(moved) = self.common(&handler, error) {
            return moved;
        }
        let hopeless = error == ErrorCode::TransactionAbortable && !commit && self.rules.abortable_abort_is_fatal;
        if hopeless {
            return self.end_fatally(&handler, Failure::AbortRefused);
        }
        self.common_in_transaction(&handler, error).unwrap_or_else(|| self.end_fatally(&handler, Failure::Unspecific))
    }
}
