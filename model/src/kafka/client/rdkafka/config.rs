//! librdkafka's configuration: its own key names and defaults (2.16.0; kafka.md 10, P-30).

use crate::base::Millis;
use crate::kafka::txn_messages::TransactionalId;

/// Settings of a client instance. Durations in ms, as the keys have them.
#[derive(Clone, Debug)]
pub struct RdConfig {
    /// `linger.ms` (`queue.buffering.max.ms`): how long the first record of a batch waits for more.
    pub linger: Millis,
    /// `message.timeout.ms`: age at which a record fails. Transactional: at most `transaction.timeout.ms`.
    pub message_timeout: Millis,
    /// `batch.size` in bytes.
    pub batch_size: u32,
    /// `batch.num.messages`.
    pub batch_num_messages: u32,
    /// `queue.buffering.max.messages`: above it `send` is refused (`_QUEUE_FULL`).
    pub queue_max_messages: u32,
    /// `queue.buffering.max.kbytes`.
    pub queue_max_kbytes: u32,
    /// `enable.idempotence`.
    pub idempotence: bool,
    /// `enable.gapless.guarantee`: a record that fails for good makes the producer fatal.
    pub gapless: bool,
    /// `max.in.flight.requests.per.connection`; idempotent: at most 5, and it counts messages (P-30, R).
    pub max_in_flight: u32,
    /// `retry.backoff.ms`.
    pub retry_backoff: Millis,
    /// `retry.backoff.max.ms`.
    pub retry_backoff_max: Millis,
    /// `retries` (`message.send.max.retries`).
    pub retries: u32,
    /// `acks` (`request.required.acks`): -1 all, 1 leader, 0 none.
    pub acks: i8,
    /// `request.timeout.ms`: how long the broker may wait for replicas.
    pub request_timeout: Millis,
    /// `reconnect.backoff.ms`.
    pub reconnect_backoff: Millis,
    /// `reconnect.backoff.max.ms`.
    pub reconnect_backoff_max: Millis,
    /// `socket.timeout.ms`: age at which an unanswered request fails. Transactional: at most the transaction timeout - 100.
    pub socket_timeout: Millis,
    /// `socket.connection.setup.timeout.ms`: TCP connect and API versions together; does not grow (K-21).
    pub setup_timeout: Millis,
    /// `topic.metadata.refresh.interval.ms`.
    pub metadata_refresh: Millis,
    /// `transactional.id`; forces idempotence.
    pub transactional: Option<TransactionalId>,
    /// `transaction.timeout.ms`.
    pub transaction_timeout: Millis,
    message_timeout_set: bool,
    socket_timeout_set: bool,
}

impl Default for RdConfig {
    fn default() -> Self {
        Self {
            linger: Millis(5),
            message_timeout: Millis(300_000),
            batch_size: 1_000_000,
            batch_num_messages: 10_000,
            queue_max_messages: 100_000,
            queue_max_kbytes: 1_048_576,
            idempotence: false,
            gapless: false,
            max_in_flight: 1_000_000,
            retry_backoff: Millis(100),
            retry_backoff_max: Millis(1_000),
            retries: i32::MAX as u32,
            acks: -1,
            request_timeout: Millis(30_000),
            reconnect_backoff: Millis(100),
            reconnect_backoff_max: Millis(10_000),
            socket_timeout: Millis(60_000),
            setup_timeout: Millis(30_000),
            metadata_refresh: Millis(300_000),
            transactional: None,
            transaction_timeout: Millis(60_000),
            message_timeout_set: false,
            socket_timeout_set: false,
        }
    }
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// librdkafka has the key, the model does not use it; or nobody has it.
    #[error("no such librdkafka setting is modelled: {0}")]
    UnknownKey(String),
    /// Not a number, boolean or word that the key takes.
    #[error("{key} cannot be {value}")]
    BadValue {
        /// The key.
        key: String,
        /// The value given.
        value: String,
    },
}

impl RdConfig {
    /// Requests of a partition in flight that a broker can recognise as duplicates (P-15).
    pub const IDEMPOTENT_IN_FLIGHT: u32 = 5;

    /// An idempotent producer.
    pub fn idempotent() -> Self {
        Self { idempotence: true, ..Self::default() }
    }
    /// A transactional producer.
    pub fn transactional(id: TransactionalId) -> Self {
        Self::default().in_transactions(id)
    }
    /// The same settings for a transactional producer.
    pub fn in_transactions(self, id: TransactionalId) -> Self {
        Self { idempotence: true, transactional: Some(id), ..self }
    }

    /// Sets one key; aliases are understood. `transactional.id` takes the interned number.
    ///
    /// # Errors
    /// [`ConfigError`] for an unknown key or a value that it does not take.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let bad = || ConfigError::BadValue { key: key.to_owned(), value: value.to_owned() };
        let number = || value.parse::<i64>().ok().filter(|n| *n >= 0).ok_or_else(bad);
        let small = || number().and_then(|n| u32::try_from(n).map_err(|_| bad()));
        let ms = || number().map(Millis);
        let flag = || match value {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(bad()),
        };
        match key {
            "linger.ms" | "queue.buffering.max.ms" => self.linger = ms()?,
            "message.timeout.ms" | "delivery.timeout.ms" => {
                // 0 is "never" in librdkafka.
                self.message_timeout = ms().map(|t| if t == Millis::ZERO { Millis::MAX } else { t })?;
                self.message_timeout_set = true;
            }
            "batch.size" => self.batch_size = small()?,
            "batch.num.messages" => self.batch_num_messages = small()?.max(1),
            "queue.buffering.max.messages" => self.queue_max_messages = small()?,
            "queue.buffering.max.kbytes" => self.queue_max_kbytes = small()?,
            "enable.idempotence" => self.idempotence = flag()?,
            "enable.gapless.guarantee" => self.gapless = flag()?,
            "max.in.flight" | "max.in.flight.requests.per.connection" => self.max_in_flight = small()?.max(1),
            "retry.backoff.ms" => self.retry_backoff = ms()?,
            "retry.backoff.max.ms" => self.retry_backoff_max = ms()?,
            "retries" | "message.send.max.retries" => self.retries = small()?,
            "acks" | "request.required.acks" => {
                self.acks = match value {
                    "all" | "-1" => -1,
                    "0" => 0,
                    "1" => 1,
                    _ => return Err(bad()),
                }
            }
            "request.timeout.ms" => self.request_timeout = ms()?,
            "reconnect.backoff.ms" => self.reconnect_backoff = ms()?,
            "reconnect.backoff.max.ms" => self.reconnect_backoff_max = ms()?,
            "socket.timeout.ms" => {
                self.socket_timeout = ms()?;
                self.socket_timeout_set = true;
            }
            "socket.connection.setup.timeout.ms" => self.setup_timeout = ms()?,
            // -1 is "never".
            "topic.metadata.refresh.interval.ms" if value == "-1" => self.metadata_refresh = Millis::MAX,
            "topic.metadata.refresh.interval.ms" => self.metadata_refresh = ms()?,
            "transactional.id" => {
                self.transactional = Some(TransactionalId(small()?));
                self.idempotence = true;
            }
            "transaction.timeout.ms" => self.transaction_timeout = ms()?,
            _ => return Err(ConfigError::UnknownKey(key.to_owned())),
        }
        Ok(())
    }

    /// Age at which a record fails: never beyond the transaction (K-29).
    pub fn message_timeout(&self) -> Millis {
        match self.transactional {
            Some(_) if !self.message_timeout_set => self.transaction_timeout,
            Some(_) => self.message_timeout.min(self.transaction_timeout),
            None => self.message_timeout,
        }
    }
    /// Age at which an unanswered request fails (P-30).
    pub fn socket_timeout(&self) -> Millis {
        match self.transactional {
            Some(_) if !self.socket_timeout_set => Millis((self.transaction_timeout.0 - 100).max(900)),
            _ => self.socket_timeout,
        }
    }
    /// Produce requests of one partition that may be unanswered.
    pub fn in_flight(&self) -> u32 {
        if self.idempotence { self.max_in_flight.min(Self::IDEMPOTENT_IN_FLIGHT) } else { self.max_in_flight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transactional_producer_has_shorter_timeouts() {
        let mut c = RdConfig::transactional(TransactionalId(1));
        assert_eq!(c.message_timeout(), Millis(60_000));
        assert_eq!(c.socket_timeout(), Millis(59_900));
        c.set("message.timeout.ms", "3000").unwrap();
        c.set("transaction.timeout.ms", "4000").unwrap();
        assert_eq!(c.message_timeout(), Millis(3_000));
        assert_eq!(c.socket_timeout(), Millis(3_900));
        assert_eq!(c.in_flight(), 5);
    }

    #[test]
    fn unknown_keys_and_bad_values_are_told_apart() {
        let mut c = RdConfig::default();
        assert!(matches!(c.set("linger", "5"), Err(ConfigError::UnknownKey(_))));
        assert!(matches!(c.set("linger.ms", "-1"), Err(ConfigError::BadValue { .. })));
        assert!(c.set("acks", "all").is_ok());
    }
}
