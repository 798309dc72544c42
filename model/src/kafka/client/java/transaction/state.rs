//! Where a producer stands, and what it can become (`TransactionManager.State`, P-27).

/// The states of an idempotent or transactional producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No producer id, none asked for.
    Uninitialized,
    /// InitProducerId is on its way.
    Initializing,
    /// Has a producer id; no transaction.
    Ready,
    /// Between begin and commit, abort or error.
    InTransaction,
    /// The transaction waits for an outside decision (KIP-939).
    Prepared,
    /// The user has called commit.
    Committing,
    /// The user has called abort.
    Aborting,
    /// Only an abort is left.
    AbortableError,
    /// The producer can do no more.
    FatalError,
}

impl State {
    /// The name as the client logs it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uninitialized => "UNINITIALIZED",
            Self::Initializing => "INITIALIZING",
            Self::Ready => "READY",
            Self::InTransaction => "IN_TRANSACTION",
            Self::Prepared => "PREPARED_TRANSACTION",
            Self::Committing => "COMMITTING_TRANSACTION",
            Self::Aborting => "ABORTING_TRANSACTION",
            Self::AbortableError => "ABORTABLE_ERROR",
            Self::FatalError => "FATAL_ERROR",
        }
    }
    /// Whether the move is legal; an illegal one on the I/O thread ends the producer (KAFKA-14831).
    pub const fn may_become(self, next: Self) -> bool {
        match next {
            Self::Uninitialized => matches!(self, Self::Ready | Self::AbortableError),
            Self::Initializing => matches!(self, Self::Uninitialized | Self::Committing | Self::Aborting),
            Self::Ready => matches!(self, Self::Initializing | Self::Committing | Self::Aborting),
            Self::InTransaction => matches!(self, Self::Ready),
            Self::Prepared => matches!(self, Self::InTransaction | Self::Initializing),
            Self::Committing => matches!(self, Self::InTransaction | Self::Prepared),
            Self::Aborting => matches!(self, Self::InTransaction | Self::Prepared | Self::AbortableError),
            Self::AbortableError => {
                matches!(self, Self::InTransaction | Self::Committing | Self::AbortableError | Self::Initializing)
            }
            Self::FatalError => true,
        }
    }
    /// Commit or abort is under way.
    pub const fn is_completing(self) -> bool {
        matches!(self, Self::Committing | Self::Aborting)
    }
    /// An error stands.
    pub const fn is_error(self) -> bool {
        matches!(self, Self::AbortableError | Self::FatalError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_leads_only_to_an_abort_or_the_end() {
        use State::*;
        let all = [Uninitialized, Initializing, Ready, InTransaction, Prepared, Committing, Aborting];
        let ways: Vec<State> = all.into_iter().filter(|next| AbortableError.may_become(*next)).collect();
        assert_eq!(ways, [Uninitialized, Aborting]);
        assert!(all.iter().all(|next| !FatalError.may_become(*next)));
    }
}
