//! `check`: can an account run these informers on this server?

mod access;
mod account;
mod lag;
mod lists;
mod report;
mod requests;
mod server;
mod target;
mod watches;

use std::time::Duration;

use clap::Args;
use kube_client::Client;

use crate::{
    connection::Session,
    error::CliError,
    exit::ExitStatus,
    flags::{OutputFlags, SelectionFlags, duration},
    output::{print_document, print_text},
    resources::{Catalog, ServerResource},
    terminal::Terminal,
};
use access::Choice;
use account::{Account, ServiceAccount};
use lists::Listed;
use report::{Finding, Report, Verdict};
use target::Target;

/// The options of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckFlags {
    /// The resources of the informers, for example pods or deployments.apps. The default is all resources
    /// that can be watched.
    #[arg(value_name = "RESOURCE")]
    resources: Vec<String>,
    /// Check the permissions of this service account. The other checks use the current user.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    service_account: Option<ServiceAccount>,
    /// The maximum time to wait for a bookmark, and for the end of a streaming list.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    wait: Duration,
    #[command(flatten)]
    output: OutputFlags,
    // The heading of these flags also applies to later flags, so they are the last.
    #[command(flatten)]
    selection: SelectionFlags,
}

/// Checks the server and the account, and prints a row for each result.
///
/// # Errors
///
/// Fails if the server cannot be reached, or has no such resource.
pub(crate) async fn check(
    session: &Session,
    flags: &CheckFlags,
    terminal: Terminal,
) -> Result<ExitStatus, CliError> {
    let client = &session.direct_client;
    let mut report = Report::new(&session.target);
    report.add(server::version(client).await?);
    let (catalog, groups) = server::catalog(client).await?;
    report.add(groups);
    let (resources, choice) = chosen(catalog.as_ref(), &flags.resources)?;
    report.add(server::watchable(&resources));
    let watchable = resources.iter().filter(|resource| resource.is_watchable());
    let targets: Vec<_> =
        watchable.map(|resource| Target::new(resource, &flags.selection, &session.namespace)).collect();
    if let Some(namespace) = targets.iter().find_map(|target| target.namespace.as_deref()) {
        report.extend(server::namespace(client, namespace).await);
    }
    let account = Account::read(client, flags.service_account.as_ref()).await;
    if let Account::Other(_) = &account {
        report.account = Some(account.name());
    }
    let access = access::review(client, &account, &targets).await;
    report.extend(access::findings(&account, &access, choice));
    if choice == Choice::Named {
        report.roles = access::missing_roles(&account, &access);
    }
    measure(client, &targets, flags.wait, &mut report).await;
    if !print_document(&flags.output.output, &report)? {
        print_text(&report.text(terminal))?;
    }
    Ok(if report.verdict() == Verdict::Red { ExitStatus::Negative } else { ExitStatus::Success })
}

/// Returns the resources of the command line. Without names, returns all resources that can be watched.
fn chosen(catalog: Option<&Catalog>, names: &[String]) -> Result<(Vec<ServerResource>, Choice), CliError> {
    let choice = if names.is_empty() { Choice::Everything } else { Choice::Named };
    let resources = match (catalog, choice) {
        (Some(catalog), Choice::Everything) => catalog.watchable().into_iter().cloned().collect(),
        (Some(catalog), Choice::Named) => catalog.select(names)?.into_iter().cloned().collect(),
        (None, _) => {
            let separate = names.iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty());
            let assumed: Vec<_> = separate.map(ServerResource::assumed).collect();
            if assumed.is_empty() && choice == Choice::Named {
                return Err(CliError::no_resource());
            }
            assumed
        }
    };
    Ok((resources, choice))
}

/// Adds the measurements of the server, with the permissions of the current user.
async fn measure(client: &Client, targets: &[Target<'_>], wait: Duration, report: &mut Report) {
    let (listed, failures) = lists::list_all(client, targets).await;
    report.extend(failures);
    let Some(sample) = sample(&listed) else {
        report.add(Finding::new(
            "measurements",
            Verdict::Amber,
            "not measured: no list succeeded".to_owned(),
            "correct the failed lists, and repeat the check",
        ));
        return;
    };
    // Not at the same time as the others, which would make the lists slower.
    report.add(lag::lag(client, sample).await);
    let (paging, gzip, watches) = tokio::join!(
        lists::paging(client, &listed),
        lists::compression(client, sample),
        watches::streaming(client, sample, wait),
    );
    report.extend([paging, gzip]);
    report.extend(watches);
}

/// Returns the resource to measure: the one with the most objects, as far as the server counts them.
fn sample<'a, 'b>(listed: &'b [Listed<'a>]) -> Option<&'b Listed<'a>> {
    let objects = |listed: &Listed<'_>| {
        let page = &listed.page;
        (page.objects() as u64).saturating_add(page.metadata.remaining_item_count.unwrap_or(0))
    };
    // If the counts are equal, the first resource is used, so the order of the names selects it.
    listed.iter().rev().max_by_key(|listed| objects(listed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn largest_count_of_server_does_not_overflow() {
        let resource = ServerResource::assumed("pods");
        let target = Target::new(&resource, &SelectionFlags::default(), "shop");
        let page = |remaining: u64| {
            let page = json!({"metadata": {"remainingItemCount": remaining}, "items": [{}]});
            serde_json::from_value(page).unwrap()
        };
        let listed = [1, u64::MAX, 2].map(|remaining| Listed { target: &target, page: page(remaining) });
        let chosen = sample(&listed).unwrap();
        assert_eq!(chosen.page.metadata.remaining_item_count, Some(u64::MAX));
    }
}
