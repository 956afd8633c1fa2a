//! `watch`: one line for each change, with the changed fields and their field managers.

mod event_loop;
mod flags;
mod goal;
mod live;
mod missed;
mod output;
mod printer;
mod record;
mod state_file;
mod targets;

use std::io::{Write as _, stderr};

use tokio::time::Instant;

use crate::{
    connection::Session, error::CliError, exit::ExitStatus, feed::Feed, interrupt::interrupted,
    resources::Catalog, terminal::Terminal,
};
use event_loop::{End, Watch, reached};
pub(crate) use flags::WatchFlags;
pub(crate) use live::restore as restore_terminal;
pub(crate) use targets::targets;

/// Prints the changes of objects until the goal is reached, the time is over, or the user presses Ctrl-C.
/// Saves the state at the end, also after Ctrl-C.
///
/// # Errors
///
/// Fails if the server cannot be reached, rejects all requests, or if a file cannot be read or written.
pub(crate) async fn watch(
    session: &Session,
    flags: &WatchFlags,
    terminal: Terminal,
) -> Result<ExitStatus, CliError> {
    // The first requests are a part of the time.
    let deadline = flags.timeout.map(|timeout| Instant::now() + timeout);
    let started = async {
        let catalog = Catalog::read(&session.direct_client).await?;
        catalog.print_problem();
        let targets = targets(&catalog, &flags.objects, &flags.selection, &session.namespace)?;
        let mut watch = Watch::new(session, flags, terminal, targets, deadline).await?;
        let feed = Feed::start(session.direct_client.clone(), watch.targets())?;
        if flags.live {
            watch.enter(session)?;
        }
        Ok::<_, CliError>((watch, feed))
    };
    let (mut watch, mut feed) = tokio::select! {
        started = started => started?,
        () = reached(deadline) => {
            note("the timeout expired: the server has not listed its resources");
            return Ok(ExitStatus::TimedOut);
        }
        () = interrupted() => return Ok(ExitStatus::Interrupted),
    };
    let result = watch.run(&mut feed).await;
    let result = match result {
        Ok(end) => saved(watch.save(&mut feed), interrupted(), end).await,
        Err(error) => Err(error),
    };
    feed.close().await;
    result.map(End::status)
}

/// Waits until the state is saved. A second Ctrl-C stops the wait, and the file is then not written.
async fn saved(
    save: impl Future<Output = Result<(), CliError>>,
    interrupt: impl Future<Output = ()>,
    end: End,
) -> Result<End, CliError> {
    tokio::select! {
        biased;
        saved = save => saved.map(|()| end),
        () = interrupt => {
            note("the state was not saved");
            Ok(End::Interrupted)
        }
    }
}

/// Prints a line on standard error.
fn note(text: &str) {
    // The line is not important enough for an error if standard error is closed.
    let _ = writeln!(stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn interrupted_save_is_not_successful() {
        let end = saved(pending(), ready(()), End::Done).await.unwrap();
        assert_eq!(end, End::Interrupted);
        let end = saved(ready(Ok(())), ready(()), End::Done).await.unwrap();
        assert_eq!(end, End::Done);
    }
}
