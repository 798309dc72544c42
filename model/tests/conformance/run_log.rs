//! Runners of kafka/producer_state, log, leader_epoch.
