//! The classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (`ClassicGroup`, and its half of
//! `GroupMetadataManager`).

mod group;
mod join;
mod member;
mod rounds;
mod session;
mod stored;
mod sync;

pub use group::{ClassicGroup, ClassicState};
pub use member::ClassicMember;
pub(super) use stored::Stored;
