//! `block_on`: runs a command with signals.

use tokio::runtime::Builder;

use crate::{error::CliError, exit::ExitStatus, interrupt::receive_signals, watch::restore_terminal};

/// Runs a command until it completes. Meanwhile, [`interrupted`](crate::interrupt::interrupted) receives the
/// signals of the process.
///
/// # Errors
///
/// Fails if the runtime cannot be created, or if the command fails.
pub(crate) fn block_on(
    command: impl Future<Output = Result<ExitStatus, CliError>>,
) -> Result<ExitStatus, CliError> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Command(Box::new(error)))?;
    // The command can block its thread, so signals need a separate task.
    let signals = runtime.spawn(receive_signals(restore_terminal));
    let result = runtime.block_on(command);
    signals.abort();
    // A blocking task can run without end: the exec plugin of a kubeconfig, or a read of standard input.
    runtime.shutdown_background();
    result
}
