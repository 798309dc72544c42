//! What a record is: the deserializer's word.

use crate::base::Cx;
use crate::kafka::messages::Message;
use crate::registry::{Library, RegistryClient, RegistryError, check, unframe};

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Valid,
    Poison,
    /// The exception is that of poison, its cause is a registry that cannot be reached.
    Unreachable,
    /// The exception says that it may pass.
    Later,
}

/// The verdict on a value; `None` while its schema is being asked for.
pub(super) fn of<W>(
    bytes: &[u8],
    library: Library,
    registry: &mut RegistryClient,
    cx: &mut Cx<'_, Message, W>,
) -> Option<Verdict> {
    let Ok(frame) = unframe(bytes) else { return Some(Verdict::Poison) };
    Some(match registry.schema(frame.schema, cx)? {
        Ok(shape) => match check(&shape, frame.body, library) {
            Ok(()) => Verdict::Valid,
            Err(_) => Verdict::Poison,
        },
        Err(RegistryError::Unknown) => Verdict::Poison,
        Err(RegistryError::Unreachable) => Verdict::Unreachable,
        Err(RegistryError::Retriable) => Verdict::Later,
    })
}
