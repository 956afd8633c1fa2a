//! `Hangups`: the signal of a closed terminal. Without a handler, it would kill the program before the state
//! is saved.

/// Waits for SIGHUP. Only the live table handles it, because `nohup` ignores it for other programs.
#[derive(Debug)]
pub(super) struct Hangups {
    /// `None` if no handler can be installed. The signal then kills the program.
    #[cfg(unix)]
    signals: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    /// Installs the handler. It stays installed until the program exits.
    pub(super) fn new() -> Self {
        Self {
            #[cfg(unix)]
            signals: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        }
    }

    /// Waits until the terminal is closed.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe, because it only waits.
    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signals) = &mut self.signals
            && signals.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
