//! Runs side by side know nothing of each other.

use super::*;
use sim::search::sweep;

#[test]
fn any_number_of_threads_gives_one_combined_digest() {
    let loaded = short("kafka/chaos", 8);
    let seeds: Vec<u64> = (0..16).collect();
    for host in [Host::Loop, Host::default_host()] {
        let digest = |threads| {
            let sweep = sweep(&loaded, &seeds, threads, host, &|_| {});
            assert!(sweep.runs.iter().all(|r| r.error.is_none()));
            sweep.digest()
        };
        assert_eq!(digest(1), digest(2), "{}", host.name());
    }
}
