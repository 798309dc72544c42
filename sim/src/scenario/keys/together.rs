//! Keys that contradict each other: what the real clients refuse to start with, and what they silently switch off.

use super::{Config, Profile, Setting, Side};

/// Two keys that cannot stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The key to point at.
    pub key: &'static str,
    /// What the client would say.
    pub message: String,
}

/// Applies what a client derives from its keys, and lists what it would refuse (`ProducerConfig.postProcessParsedConfig`,
/// `rd_kafka_conf_finalize`).
pub fn conflicts(config: &mut Config) -> Vec<Conflict> {
    match config.side() {
        Side::Producer(Profile::Librdkafka) => rdkafka_producer(config),
        Side::Producer(_) => java_producer(config),
        Side::Consumer(_) => consumer(config),
        Side::Server
        | Side::Feature
        | Side::Topic
        | Side::Flink
        | Side::Job
        | Side::Sink
        | Side::Source
        | Side::KafkaEngine
        | Side::MergeTree => Vec::new(),
    }
}

fn conflict(key: &'static str, message: impl Into<String>) -> Conflict {
    Conflict { key, message: message.into() }
}

const IN_FLIGHT: &str = "max.in.flight.requests.per.connection";

/// What idempotence does not go with: the key and the demand.
fn against_idempotence(config: &Config) -> Vec<(&'static str, &'static str)> {
    let mut list = Vec::new();
    if config.word("acks") != "all" {
        list.push(("acks", "acks=all"));
    }
    if config.int("retries") == 0 {
        list.push(("retries", "retries above 0"));
    }
    if config.int(IN_FLIGHT) > 5 {
        list.push((IN_FLIGHT, "at most 5 requests in flight"));
    }
    list
}

/// What a transactional Java producer refuses besides what [`conflicts`] has said already: it has to be idempotent, so what
/// elsewhere only switches the default off is a contradiction here.
pub fn against_transactions(profile: Profile, config: &Config) -> Vec<Conflict> {
    if config.flag("enable.idempotence") {
        return Vec::new();
    }
    if profile == Profile::Librdkafka {
        // transactional.id switches idempotence on, and refuses what contradicts it.
        let set = |key: &'static str, wanted: &str| config.is_set(key) && config.get(key).to_string() != wanted;
        let off = set("enable.idempotence", "true")
            .then(|| conflict("enable.idempotence", "a transactional producer is idempotent"));
        let acks = set("acks", "-1").then(|| conflict("acks", "a transactional producer demands acks=all"));
        return off.into_iter().chain(acks).collect();
    }
    let off = config.is_set("enable.idempotence");
    let mut list = Vec::new();
    if off {
        list.push(conflict("enable.idempotence", "a transactional producer is idempotent"));
    }
    let against = against_idempotence(config).into_iter().filter(|(key, _)| off || *key != IN_FLIGHT);
    list.extend(against.map(|(key, demand)| conflict(key, format!("a transactional producer demands {demand}"))));
    list
}

fn java_producer(config: &mut Config) -> Vec<Conflict> {
    let mut list = Vec::new();
    let against = against_idempotence(config);
    if config.flag("enable.idempotence") && !against.is_empty() {
        if config.is_set("enable.idempotence") {
            list.extend(
                against.iter().map(|(key, demand)| conflict(key, format!("an idempotent producer demands {demand}"))),
            );
        } else {
            // KIP-679: a contradicting key that is set by hand switches the default off; in flight above 5 is refused.
            if let Some((key, demand)) = against.iter().find(|(key, _)| *key == IN_FLIGHT) {
                list.push(conflict(key, format!("idempotence is on by default and demands {demand}")));
            }
            config.set_default("enable.idempotence", Setting::Flag(false));
        }
    }
    let least = config.int("linger.ms").saturating_add(config.int("request.timeout.ms"));
    if config.int("delivery.timeout.ms") < least {
        if config.is_set("delivery.timeout.ms") {
            list.push(conflict("delivery.timeout.ms", format!("below linger.ms + request.timeout.ms = {least}")));
        } else {
            // KafkaProducer.configureDeliveryTimeout raises a default that is too small.
            config.set_default("delivery.timeout.ms", Setting::Int(least.min(i64::from(i32::MAX))));
        }
    }
    list
}

fn rdkafka_producer(config: &mut Config) -> Vec<Conflict> {
    let mut list = Vec::new();
    if config.flag("enable.idempotence") {
        // P-30: what is not set by hand is adjusted, the rest is refused.
        config.set_default(IN_FLIGHT, Setting::Int(5));
        list.extend(
            against_idempotence(config)
                .iter()
                .map(|(key, demand)| conflict(key, format!("an idempotent producer demands {demand}"))),
        );
    }
    let (timeout, linger) = (config.int("message.timeout.ms"), config.int("linger.ms"));
    if timeout != 0 && timeout <= linger {
        list.push(conflict("message.timeout.ms", format!("must be above linger.ms = {linger}")));
    }
    list.extend(backoffs(config));
    list
}

fn consumer(config: &Config) -> Vec<Conflict> {
    let mut list = Vec::new();
    let (heartbeat, session) = (config.int("heartbeat.interval.ms"), config.int("session.timeout.ms"));
    if heartbeat >= session {
        list.push(conflict("heartbeat.interval.ms", format!("must be below session.timeout.ms = {session}")));
    }
    if matches!(config.side(), Side::Consumer(Profile::Librdkafka)) {
        list.extend(backoffs(config));
    }
    if config.text("group.id").is_empty() {
        // Without a group nothing of it has an effect.
        for key in
            ["group.instance.id", "partition.assignment.strategy", "enable.auto.commit", "auto.commit.interval.ms"]
        {
            let off = key == "enable.auto.commit" && !config.flag(key);
            if config.is_set(key) && !off {
                list.push(conflict(key, "has an effect in a group alone: set group.id"));
            }
        }
    } else if config.has("group.protocol") && config.word("group.protocol") == "consumer" {
        list.push(conflict("group.protocol", "members of KIP-848 are not covered yet: set classic"));
    }
    list
}

fn backoffs(config: &Config) -> Option<Conflict> {
    let (first, most) = (config.int("reconnect.backoff.ms"), config.int("reconnect.backoff.max.ms"));
    (first > most)
        .then(|| conflict("reconnect.backoff.max.ms", format!("must be at least reconnect.backoff.ms = {first}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_1_switches_idempotence_off_unless_it_was_asked_for() {
        let mut config = Config::defaults(Side::Producer(Profile::Java));
        config.set("acks", Setting::Word("1"));
        assert_eq!(conflicts(&mut config), []);
        assert!(!config.flag("enable.idempotence"));
        config.set("enable.idempotence", Setting::Flag(true));
        assert_eq!(conflicts(&mut config)[0].key, "acks");
    }

    #[test]
    fn a_transactional_producer_has_no_default_to_switch_off() {
        let refused = |keys: &[(&'static str, Setting)]| {
            let mut config = Config::defaults(Side::Producer(Profile::Java));
            keys.iter().for_each(|(key, value)| config.set(key, value.clone()));
            let mut all = conflicts(&mut config);
            all.extend(against_transactions(Profile::Java, &config));
            all.into_iter().map(|c| c.key).collect::<Vec<_>>()
        };
        let (acks, off) = (("acks", Setting::Word("1")), ("enable.idempotence", Setting::Flag(false)));
        assert!(refused(&[]).is_empty());
        assert_eq!(refused(std::slice::from_ref(&acks)), ["acks"]);
        assert_eq!(refused(&[("retries", Setting::Int(0))]), ["retries"]);
        assert_eq!(refused(&[(IN_FLIGHT, Setting::Int(6))]), [IN_FLIGHT]);
        assert_eq!(refused(&[acks.clone(), off]), ["enable.idempotence", "acks"]);
        assert_eq!(refused(&[acks, ("enable.idempotence", Setting::Flag(true))]), ["acks"]);
    }

    #[test]
    fn librdkafka_lowers_in_flight_when_idempotent() {
        let mut config = Config::defaults(Side::Producer(Profile::Librdkafka));
        config.set("enable.idempotence", Setting::Flag(true));
        assert_eq!(conflicts(&mut config), []);
        assert_eq!(config.int("max.in.flight.requests.per.connection"), 5);
    }
}
