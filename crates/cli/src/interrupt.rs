//! Ctrl-C and SIGTERM: the first signal stops a command, which then completes its output.

use std::{io::Write as _, process, sync::LazyLock, time::Duration};

use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{sleep, timeout},
};

/// The time in which a command must handle a signal. A command cannot handle it while its output is blocked.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// The maximum time to restore the terminal. A blocked terminal cannot be restored completely.
const MAX_RESTORE: Duration = Duration::from_secs(1);

/// The signals of this process. A signal is not lost between two calls of [`interrupted`].
static SIGNALS: LazyLock<watch::Sender<Signals>> = LazyLock::new(|| watch::Sender::new(Signals::default()));

/// Counts the signals of this process.
#[derive(Debug, Default)]
struct Signals {
    received: u64,
    handled: u64,
}

/// Waits until the user presses Ctrl-C, or another process sends SIGTERM. Signals before the call count if no
/// other call has handled them.
///
/// # Cancel safety
///
/// If the future is dropped, the signal remains for the next call.
pub(crate) async fn interrupted() {
    // The sender is never dropped, so this cannot fail.
    let _ = SIGNALS.subscribe().wait_for(|signals| signals.received > signals.handled).await;
    SIGNALS.send_modify(|signals| signals.handled = signals.received);
}

/// Receives signals. If the program does not handle a signal within some seconds, or before the next signal,
/// calls `restore`, and exits the process.
pub(crate) async fn receive_signals(restore: fn()) {
    // If no handler can be installed, the signal kills the process.
    let Ok(mut receiver) = Receiver::new() else { return };
    loop {
        receiver.next().await;
        SIGNALS.send_modify(|signals| signals.received += 1);
        let is_handled = tokio::select! {
            biased;
            () = all_handled() => true,
            () = receiver.next() => false,
            () = sleep(MAX_DELAY) => false,
        };
        if !is_handled {
            exit(restore).await;
        }
    }
}

/// Waits until all signals are handled.
async fn all_handled() {
    let _ = SIGNALS.subscribe().wait_for(|signals| signals.handled == signals.received).await;
}

/// Exits the process without the end of its work. A blocked write of the main thread cannot be cancelled.
async fn exit(restore: fn()) {
    let _ = timeout(MAX_RESTORE, spawn_blocking(restore)).await;
    let report = || {
        // Standard error can also be closed.
        let _ =
            writeln!(std::io::stderr(), "error: the program did not stop in time; is its output blocked?");
    };
    let _ = timeout(MAX_RESTORE, spawn_blocking(report)).await;
    process::exit(crate::exit::INTERRUPTED.into());
}

/// Receives Ctrl-C and SIGTERM.
#[cfg(unix)]
struct Receiver {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Receiver {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Receives Ctrl-C.
#[cfg(windows)]
struct Receiver(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Receiver {
    fn new() -> std::io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn signal_between_two_calls_is_not_lost() {
        SIGNALS.send_modify(|signals| signals.received += 1);
        interrupted().await;
        assert!(timeout(Duration::from_millis(1), interrupted()).await.is_err());
        SIGNALS.send_modify(|signals| signals.received += 1);
        interrupted().await;
    }
}
