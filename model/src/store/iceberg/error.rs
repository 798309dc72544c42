//! What goes wrong, by the classes that Iceberg throws.

/// An exception of a client of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// The swap was refused, and the retries are used up.
    CommitFailed,
    /// Nobody knows whether the swap happened.
    CommitStateUnknown,
    /// An error that the catalog's client does not map to anything else.
    UncheckedIo,
    /// 403.
    Forbidden,
    /// 503.
    ServiceUnavailable,
    /// What is to be committed does not fit what others have committed.
    Validation,
    /// A call that makes no sense.
    IllegalArgument,
    /// A call at a wrong time.
    IllegalState,
    /// A file is gone.
    NotFound,
    /// The snapshot, or a copy of it, is in the history already.
    CherrypickAncestor,
}
impl Exception {
    /// Its class.
    pub const fn class(self) -> &'static str {
        match self {
            Self::CommitFailed => "CommitFailedException",
            Self::CommitStateUnknown => "CommitStateUnknownException",
            Self::UncheckedIo => "UncheckedIOException",
            Self::Forbidden => "ForbiddenException",
            Self::ServiceUnavailable => "ServiceUnavailableException",
            Self::Validation => "ValidationException",
            Self::IllegalArgument => "IllegalArgumentException",
            Self::IllegalState => "IllegalStateException",
            Self::NotFound => "NotFoundException",
            Self::CherrypickAncestor => "CherrypickAncestorCommitException",
        }
    }
    /// `CleanableFailure`: it is certain that nothing was committed, so what was written for it may go.
    pub const fn cleanable(self) -> bool {
        match self {
            Self::CommitFailed
            | Self::Forbidden
            | Self::ServiceUnavailable
            | Self::Validation
            | Self::NotFound
            | Self::CherrypickAncestor => true,
            Self::CommitStateUnknown | Self::UncheckedIo | Self::IllegalArgument | Self::IllegalState => false,
        }
    }
}

/// How a swap fails, as the catalog's client tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapError {
    /// Another one was first. The only failure that is tried again.
    CommitFailed,
    /// The answer is lost: a timeout, or a 5xx of a REST catalog.
    Unknown,
    /// An I/O error that is mapped to nothing.
    Io,
    /// 403.
    Forbidden,
    /// A 503 that is known to have done nothing.
    Unavailable,
    /// What the catalog itself refuses about the change.
    Refused(Exception),
}
impl SwapError {
    /// What the client throws.
    pub const fn exception(self) -> Exception {
        match self {
            Self::CommitFailed => Exception::CommitFailed,
            Self::Unknown => Exception::CommitStateUnknown,
            Self::Io => Exception::UncheckedIo,
            Self::Forbidden => Exception::Forbidden,
            Self::Unavailable => Exception::ServiceUnavailable,
            Self::Refused(exception) => exception,
        }
    }
}
