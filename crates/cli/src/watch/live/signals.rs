//! `Signals`: the signals that need the terminal to be restored first.

use std::future::pending;

/// A signal for the live table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix has these signals"))]
pub(super) enum Signal {
    /// The terminal was closed (SIGHUP).
    Hangup,
    /// The user stops the program, and can continue it later (SIGTSTP).
    Stop,
}

/// Waits for signals. Without handlers, they would stop or kill the program before the terminal is restored
/// and the state is saved. Only the live table handles SIGHUP, because `nohup` ignores it for other programs.
#[derive(Debug)]
pub(super) struct Signals {
    /// `None` if no handler can be installed. The signal then has its usual effect.
    #[cfg(unix)]
    hangups: Option<tokio::signal::unix::Signal>,
    #[cfg(unix)]
    stops: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Installs the handlers. They stay installed until the program exits.
    #[cfg(unix)]
    pub(super) fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let stop = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
        Self { hangups: signal(SignalKind::hangup()).ok(), stops: signal(stop).ok() }
    }

    /// Installs no handler.
    #[cfg(not(unix))]
    pub(super) fn new() -> Self {
        Self {}
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe, because it only waits.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            () = received(&mut self.hangups) => Signal::Hangup,
            () = received(&mut self.stops) => Signal::Stop,
        }
    }

    /// Waits indefinitely.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) -> Signal {
        pending().await
    }
}

#[cfg(unix)]
async fn received(signals: &mut Option<tokio::signal::unix::Signal>) {
    if let Some(signals) = signals
        && signals.recv().await.is_some()
    {
        return;
    }
    pending::<()>().await;
}
