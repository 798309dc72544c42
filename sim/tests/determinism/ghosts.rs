//! The model carries ledger numbers and looks at none.

use super::*;
use sim::run::Shuffle;

#[test]
fn shuffled_ghosts_change_neither_chain_nor_outcome() {
    // Of the others' rows some are made of many; the last one's stand in stores.
    for (name, seconds) in [("kafka/chaos", 30), ("gatewaymeter/busy", 20), ("clickstream/platform", 15)] {
        let loaded = short(name, seconds);
        let plain = in_loop(&loaded, 42);
        for key in 1..4 {
            let mut run = begin(&loaded, 42);
            run.shuffle_ghosts(Shuffle::new(key));
            assert_eq!(end(run, &loaded, Host::Loop), plain, "{name}, shuffle {key}");
        }
    }
}
