//! The law of order.

use crate::history::{History, READER, TP};
use model::base::{Event, Layer, Offset};

#[test]
fn a_reader_does_not_go_back() {
    let mut h = History::new();
    h.round(3).round(2);
    let again = h.logs[&1].entries[0].clone();
    h.show(READER, Layer::Read(0), &again);
    h.finds("order/reader-goes-back");
    h.finds("layer/given-twice");
}

#[test]
fn after_a_reset_it_may() {
    let mut h = History::new();
    h.round(3).round(2);
    let again = h.logs[&1].entries[0].clone();
    h.tell(READER, Event::Position { tp: TP, offset: Offset(0), reset: true });
    h.show(READER, Layer::Read(0), &again);
    h.finds_only(&["layer/given-twice by X-30, X-31"]);
}

#[test]
fn records_of_a_producer_keep_their_order() {
    let mut h = History::new();
    let (first, second) = (h.batch(2), h.batch(1));
    h.put(1, &second, 0, true);
    h.put(1, &first, 0, true);
    h.sync();
    h.finds("order/send-order");
    h.cast.idempotent = vec![false];
    h.finds("order/send-order by enable.idempotence=false");
}
