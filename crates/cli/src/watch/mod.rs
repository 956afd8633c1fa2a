//! `watch`: one line for each change, with the changed fields and their field managers.

mod event_loop;
mod flags;
mod goal;
mod missed;
mod printer;
mod record;
mod state_file;
mod targets;

use crate::{
    connection::Session, error::CliError, exit::ExitStatus, feed::Feed, interrupt::interrupted,
    resources::Catalog, terminal::Terminal,
};
use event_loop::{End, Watch};
pub(crate) use flags::WatchFlags;
pub(crate) use targets::targets;

/// Prints the changes of objects until the goal is reached, the time is over, or the user presses Ctrl-C. Saves the
/// state at the end, also after Ctrl-C.
///
/// # Errors
///
/// Fails if the server cannot be reached, rejects all requests, or if a file cannot be read or written.
pub(crate) async fn watch(
    session: &Session,
    flags: &WatchFlags,
    terminal: Terminal,
) -> Result<ExitStatus, CliError> {
    let started = async {
        let catalog = Catalog::read(&session.client).await?;
        let targets = targets(&catalog, &flags.objects, &flags.selection, &session.namespace)?;
        let watch = Watch::new(session, flags, terminal, targets).await?;
        let feed = Feed::start(session.client.clone(), watch.targets())?;
        Ok::<_, CliError>((watch, feed))
    };
    let (mut watch, mut feed) = tokio::select! {
        started = started => started?,
        () = interrupted() => return Ok(ExitStatus::Interrupted),
    };
    let result = watch.run(&mut feed).await;
    let result = match result {
        Ok(end) => {
            let saved = tokio::select! {
                saved = watch.save(&mut feed) => saved,
                () = interrupted() => Ok(()),
            };
            saved.map(|()| end)
        }
        Err(error) => Err(error),
    };
    feed.close().await;
    result.map(End::status)
}
