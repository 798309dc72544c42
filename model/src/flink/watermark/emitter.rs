//! What of a generator's watermarks leaves its operator (`WatermarkEmitter`, `WatermarkToDataOutput`).

use super::Signal;
use crate::flink::timers::NO_WATERMARK;

/// Lets increasing watermarks through, and ends an idleness with the next of them, never with a record.
#[derive(Clone, Copy, Debug)]
pub struct Emitter {
    watermark: i64,
    idle: bool,
}
impl Default for Emitter {
    fn default() -> Self {
        Self { watermark: NO_WATERMARK, idle: false }
    }
}
impl Emitter {
    /// What leaves, in order.
    pub fn signal(&mut self, signal: Signal) -> [Option<Signal>; 2] {
        match signal {
            Signal::Watermark(watermark) if watermark <= self.watermark => [None, None],
            Signal::Watermark(watermark) => {
                self.watermark = watermark;
                let woken = std::mem::replace(&mut self.idle, false);
                [woken.then_some(Signal::Active), Some(signal)]
            }
            Signal::Idle => [(!std::mem::replace(&mut self.idle, true)).then_some(Signal::Idle), None],
            Signal::Active => [std::mem::replace(&mut self.idle, false).then_some(Signal::Active), None],
        }
    }
}
