//! The table of kafka-measured.md 2, cell by cell: what a producer is told whose transaction has expired, or whose
//! `transactional.id` somebody else has taken, by its first call; and what becomes of the data.
//!
//! `cargo test -p sim --test expiry -- --nocapture` prints the cells.

mod caller;
mod stage;

use Call::{Abort, Begin, Commit, Init, Offsets, Send};
use Library::{Java, Librdkafka};
use Then::{Abortable, Fatal, Ok};
use caller::{Call, Library, Then};
use stage::{Part, play};

const EPOCH: &str = "INVALID_PRODUCER_EPOCH";
const FENCED: &str = "PRODUCER_FENCED";
const STATE: &str = "INVALID_TXN_STATE";
const RD_FENCED: &str = "_FENCED";

/// Calls with what each is to end in.
type Script = &'static [(Call, Then, &'static str)];

/// A transaction that is committed, then one with a record in it.
const BEFORE: [(i64, Call); 6] =
    [(0, Init), (500, Begin), (500, Send(0)), (500, Commit), (1_000, Begin), (1_000, Send(0))];
/// And another one, after whatever came in between.
const NEXT: Script = &[(Begin, Ok, ""), (Send(0), Ok, ""), (Commit, Ok, "")];
const NONE: Script = &[];

/// Makes the calls of `script` from `from` on after `before`, and compares. `said` begins with what came before.
#[allow(clippy::disallowed_macros, reason = "the table of cells")]
fn compare(name: &str, said: &[caller::Said], before: usize, script: impl Iterator<Item = (Call, Then, &'static str)>) {
    for (call, then, error) in &said[..before] {
        assert_eq!((*then, error.as_str()), (Ok, ""), "{name}: {call:?} before anything has happened");
    }
    let wanted: Vec<_> = script.map(|(call, then, error)| (call, then, error.to_owned())).collect();
    let shown: Vec<String> = said[before..].iter().map(|(c, t, e)| format!("{c:?} {t:?} {e}").trim().into()).collect();
    println!("{name:<40} {}", shown.join("; "));
    assert_eq!(said[before..], wanted, "{name}");
}

/// `transaction.timeout.ms` 5000, and the producer is frozen until the coordinator has aborted.
fn expired(name: &str, library: Library, version: u8, script: Script, next: Script) {
    let all = || script.iter().chain(next).copied();
    let calls = BEFORE.into_iter().chain(all().map(|(call, ..)| (25_000, call))).collect();
    let late = Part { library, timeout: 5_000, calls, frozen: Some((1_500, 24_000)) };
    // Whoever comes next with the same id finds nothing in its way.
    let calls = vec![(40_000, Init), (40_000, Begin), (40_000, Send(1)), (40_000, Commit)];
    let heir = Part { library, timeout: 5_000, calls, frozen: None };
    let played = play(version, &[late, heir], 50_000);
    compare(name, &played.said[0], BEFORE.len(), all());
    compare(name, &played.said[1], 4, NONE.iter().copied());
    // The expired transaction's record is aborted, whatever was called; nothing that was called late is stored.
    assert_eq!((played.committed, played.aborted, played.open), (2 + u32::from(!next.is_empty()), 1, 0), "{name}");
}
/// A second producer with the same id initializes while the first is idle, or has an open transaction.
fn second(name: &str, library: Library, version: u8, open: bool, script: Script) {
    let before = if open { 6 } else { 4 };
    let calls = BEFORE[..before].iter().copied().chain(script.iter().map(|(call, ..)| (10_000, *call))).collect();
    let first = Part { library, timeout: 60_000, calls, frozen: None };
    let calls = vec![
        (5_000, Init),
        (5_000, Begin),
        (5_000, Send(1)),
        (5_000, Commit),
        (9_000, Begin),
        (9_000, Send(1)),
        (15_000, Commit),
    ];
    let heir = Part { library, timeout: 60_000, calls, frozen: None };
    let played = play(version, &[first, heir], 30_000);
    compare(name, &played.said[0], before, script.iter().copied());
    // Undisturbed.
    compare(name, &played.said[1], 7, NONE.iter().copied());
    assert_eq!((played.committed, played.aborted, played.open), (3, u32::from(open), 0), "{name}");
}

macro_rules! cells {
    ($kind:ident: $($name:ident $arguments:tt;)*) => { $(#[test] fn $name() { cells!(@ $kind $name $arguments); })* };
    (@ expired $name:ident ($library:expr, $version:expr, $script:expr, $next:expr)) => {
        expired(stringify!($name), $library, $version, $script, $next);
    };
    (@ second $name:ident ($library:expr, $version:expr, $open:expr, $script:expr)) => {
        second(stringify!($name), $library, $version, $open, $script);
    };
}

// Transaction.version 2, Java: T-22.
cells! { expired:
    java_v2_commit(Java, 2, &[(Commit, Fatal, STATE), (Abort, Fatal, STATE), (Begin, Fatal, STATE)], NONE);
    java_v2_abort(Java, 2, &[(Abort, Ok, "")], NEXT);
    java_v2_send_old(Java, 2, &[(Send(0), Abortable, EPOCH), (Commit, Abortable, EPOCH), (Abort, Ok, "")], NEXT);
    java_v2_send_new(Java, 2, &[(Send(1), Abortable, EPOCH), (Abort, Ok, "")], NEXT);
    java_v2_offsets(Java, 2, &[(Offsets, Fatal, FENCED), (Abort, Fatal, FENCED)], NONE);
    java_v2_nothing(Java, 2, NONE, NONE);
}
// Transaction.version 1, Java.
cells! { expired:
    java_v1_commit(Java, 1, &[(Commit, Fatal, FENCED), (Abort, Fatal, FENCED)], NONE);
    java_v1_abort(Java, 1, &[(Abort, Fatal, FENCED)], NONE);
    java_v1_send_old(Java, 1, &[(Send(0), Abortable, EPOCH), (Commit, Abortable, EPOCH), (Abort, Fatal, FENCED)], NONE);
    java_v1_send_new(Java, 1, &[(Send(1), Fatal, FENCED), (Abort, Fatal, FENCED)], NONE);
    java_v1_offsets(Java, 1, &[(Offsets, Fatal, FENCED), (Abort, Fatal, FENCED)], NONE);
    java_v1_nothing(Java, 1, NONE, NONE);
}
// librdkafka speaks version 1 on either cluster. Offsets were not measured: by the versions of its requests (K-20, 4.3) and the
// table of section 7.
cells! { expired:
    librdkafka_v2_commit(Librdkafka, 2, &[(Commit, Fatal, RD_FENCED)], NONE);
    librdkafka_v2_abort(Librdkafka, 2, &[(Abort, Fatal, RD_FENCED)], NONE);
    librdkafka_v2_send_old(Librdkafka, 2, &[(Send(0), Fatal, EPOCH)], NONE);
    librdkafka_v2_send_new(Librdkafka, 2, &[(Send(1), Fatal, "_PURGE_QUEUE")], NONE);
    librdkafka_v2_offsets(Librdkafka, 2, &[(Offsets, Fatal, RD_FENCED), (Abort, Fatal, RD_FENCED)], NONE);
    librdkafka_v2_nothing(Librdkafka, 2, NONE, NONE);
    librdkafka_v1_commit(Librdkafka, 1, &[(Commit, Fatal, RD_FENCED)], NONE);
    librdkafka_v1_abort(Librdkafka, 1, &[(Abort, Fatal, RD_FENCED)], NONE);
    librdkafka_v1_send_old(Librdkafka, 1, &[(Send(0), Fatal, EPOCH)], NONE);
    librdkafka_v1_send_new(Librdkafka, 1, &[(Send(1), Fatal, "_PURGE_QUEUE")], NONE);
    librdkafka_v1_offsets(Librdkafka, 1, &[(Offsets, Fatal, RD_FENCED), (Abort, Fatal, RD_FENCED)], NONE);
    librdkafka_v1_nothing(Librdkafka, 1, NONE, NONE);
}
// Somebody else has the id: T-28. What tells it from an expiry shows only in the abort.
cells! { second:
    second_java_v2_idle(Java, 2, false, &[(Begin, Ok, ""), (Send(0), Abortable, EPOCH), (Commit, Abortable, EPOCH), (Abort, Fatal, FENCED)]);
    second_java_v2_open(Java, 2, true, &[(Send(0), Abortable, EPOCH), (Commit, Abortable, EPOCH), (Abort, Fatal, FENCED)]);
    second_java_v2_open_commit(Java, 2, true, &[(Commit, Fatal, FENCED)]);
    second_java_v2_open_abort(Java, 2, true, &[(Abort, Fatal, FENCED)]);
    second_java_v2_open_offsets(Java, 2, true, &[(Offsets, Fatal, FENCED)]);
    second_java_v2_open_send_new(Java, 2, true, &[(Send(1), Abortable, EPOCH), (Abort, Fatal, FENCED)]);
    second_java_v1_idle(Java, 1, false, &[(Begin, Ok, ""), (Send(0), Fatal, FENCED), (Abort, Fatal, FENCED)]);
    second_java_v1_open(Java, 1, true, &[(Send(0), Abortable, EPOCH), (Commit, Abortable, EPOCH), (Abort, Fatal, FENCED)]);
    second_java_v1_open_commit(Java, 1, true, &[(Commit, Fatal, FENCED)]);
    second_java_v1_open_abort(Java, 1, true, &[(Abort, Fatal, FENCED)]);
    second_java_v1_open_offsets(Java, 1, true, &[(Offsets, Fatal, FENCED)]);
    second_librdkafka_idle(Librdkafka, 2, false, &[(Begin, Ok, ""), (Send(0), Fatal, "_PURGE_QUEUE"), (Commit, Fatal, RD_FENCED)]);
    second_librdkafka_open(Librdkafka, 2, true, &[(Send(0), Fatal, EPOCH), (Commit, Fatal, RD_FENCED), (Abort, Fatal, RD_FENCED)]);
    second_librdkafka_open_commit(Librdkafka, 2, true, &[(Commit, Fatal, RD_FENCED)]);
    second_librdkafka_open_abort(Librdkafka, 2, true, &[(Abort, Fatal, RD_FENCED)]);
    second_librdkafka_open_offsets(Librdkafka, 2, true, &[(Offsets, Fatal, RD_FENCED)]);
}
