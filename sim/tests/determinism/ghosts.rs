//! The model carries ledger numbers and looks at none.

use super::*;
use sim::run::Shuffle;

#[test]
fn shuffled_ghosts_change_neither_chain_nor_outcome() {
    let loaded = short("kafka/chaos", 30);
    let plain = in_loop(&loaded, 42);
    for key in 1..4 {
        let mut run = begin(&loaded, 42);
        run.shuffle_ghosts(Shuffle::new(key));
        assert_eq!(end(run, &loaded, Host::Loop), plain, "shuffle {key}");
    }
}
