//! `Signal`: wakes watches in a fixed order.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;

/// Wakes its subscribers in the order in which they started to wait. A watch channel of tokio would wake them
/// in a random order. The same seed would then not always produce the same history.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signal(Arc<SignalState>);

#[derive(Debug, Default)]
struct SignalState {
    sent: AtomicU64,
    notify: Notify,
}

#[derive(Debug)]
pub(crate) struct SignalReceiver {
    signal: Signal,
    /// The number of signals that this receiver has seen.
    seen: u64,
}

impl Signal {
    pub(crate) fn send(&self) {
        self.0.sent.fetch_add(1, Ordering::AcqRel);
        self.0.notify.notify_waiters();
    }

    pub(crate) fn subscribe(&self) -> SignalReceiver {
        SignalReceiver { signal: self.clone(), seen: self.0.sent.load(Ordering::Acquire) }
    }
}

impl SignalReceiver {
    /// Waits for a signal after the last return of this method.
    ///
    /// # Cancel safety
    /// A dropped future loses no signal.
    pub(crate) async fn changed(&mut self) {
        loop {
            // Created before the check, so that a signal after the check completes it.
            let notified = self.signal.0.notify.notified();
            let sent = self.signal.0.sent.load(Ordering::Acquire);
            if sent != self.seen {
                self.seen = sent;
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use parking_lot::Mutex;
    use tokio::task::yield_now;

    use super::*;

    #[test]
    fn receiver_sees_signals_after_subscription_once() {
        let signal = Signal::default();
        signal.send();
        let mut receiver = signal.subscribe();
        assert!(receiver.changed().now_or_never().is_none());
        signal.send();
        signal.send();
        assert!(receiver.changed().now_or_never().is_some());
        assert!(receiver.changed().now_or_never().is_none());
    }

    #[tokio::test]
    async fn receivers_wake_in_the_order_of_their_waits() {
        let (signal, woken) = (Signal::default(), Arc::new(Mutex::new(Vec::new())));
        for number in 0..50 {
            let (mut receiver, woken) = (signal.subscribe(), Arc::clone(&woken));
            tokio::spawn(async move {
                receiver.changed().await;
                woken.lock().push(number);
            });
        }
        yield_now().await;
        signal.send();
        while woken.lock().len() < 50 {
            yield_now().await;
        }
        assert_eq!(*woken.lock(), (0..50).collect::<Vec<_>>());
    }
}
