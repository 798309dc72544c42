//! The model carries ledger numbers and looks at none.

use super::*;
use sim::run::Shuffle;

#[test]
fn shuffled_ghosts_change_neither_chain_nor_outcome() {
    // Of the second's rows some are made of many.
    for (name, seconds) in [("kafka/chaos", 30), ("gatewaymeter/busy", 20)] {
        let loaded = short(name, seconds);
        let plain = in_loop(&loaded, 42);
        for key in 1..4 {
            let mut run = begin(&loaded, 42);
            run.shuffle_ghosts(Shuffle::new(key));
            assert_eq!(end(run, &loaded, Host::Loop), plain, "{name}, shuffle {key}");
        }
    }
}
