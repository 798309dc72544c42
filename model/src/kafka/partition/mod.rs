//! A partition at one broker: leader or follower, high watermark, ISR, waiting produces (kafka.md 1.2 to 1.4).
