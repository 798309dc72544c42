//! I-20, I-21, P-6, P-9.

use crate::history::History;

/// Three batches, the last of which is made by `tag` of (producer epoch, sequence).
fn third(tag: impl FnOnce(&mut i16, &mut i32)) -> History {
    let mut h = History::new();
    h.round(3).round(2);
    tag(&mut h.producer_epoch, &mut h.sequence);
    h.round(1);
    h
}

#[test]
fn contiguous_sequences_are_clean() {
    third(|_, _| {}).clean();
    third(|epoch, sequence| (*epoch, *sequence) = (1, 0)).clean();
    // The first that is known may have any number (P-11).
    let mut h = History::new();
    h.sequence = i32::MAX - 2;
    h.round(3).round(2).clean();
}

#[test]
fn a_gap_is_found() {
    third(|_, sequence| *sequence += 1).finds_only(&["sequences/I-20"]);
}

#[test]
fn a_batch_twice_is_found() {
    third(|_, sequence| *sequence = 3).finds_only(&["sequences/I-21"]);
}

#[test]
fn an_old_epoch_is_found() {
    third(|epoch, _| *epoch = -2).finds_only(&["sequences/P-6"]);
}

#[test]
fn a_new_epoch_begins_at_zero() {
    third(|epoch, _| *epoch = 1).finds_only(&["sequences/P-9"]);
}
