//! `check`: can the user run these informers on this server?

mod report;
mod server;

use clap::Args;

use crate::{
    connection::Session,
    error::CliError,
    exit::ExitStatus,
    flags::OutputFlags,
    output::{print_document, print_text},
    resources::Catalog,
    terminal::Terminal,
};
use report::{Report, Verdict};

/// The options of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckFlags {
    /// The resources of the informers, for example pods or deployments.apps. The default is all resources
    /// that can be watched.
    #[arg(value_name = "RESOURCE")]
    resources: Vec<String>,
    #[command(flatten)]
    output: OutputFlags,
}

/// Checks the server, and prints a row for each check.
///
/// # Errors
///
/// Fails if the server cannot be reached, or has no such resource.
pub(crate) async fn check(
    session: &Session,
    flags: &CheckFlags,
    terminal: Terminal,
) -> Result<ExitStatus, CliError> {
    let mut report = Report::new(&session.target);
    report.add(server::version(&session.client).await?);
    let catalog = Catalog::read(&session.client).await?;
    report.add(server::resources(&catalog));
    let chosen =
        if flags.resources.is_empty() { catalog.watchable() } else { catalog.select(&flags.resources)? };
    report.add(server::watchable(&chosen));
    if !print_document(&flags.output.output, &report)? {
        print_text(&report.text(terminal))?;
    }
    Ok(if report.verdict() == Verdict::Red { ExitStatus::Negative } else { ExitStatus::Success })
}
