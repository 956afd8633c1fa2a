//! The configuration: the options of the manager and its controllers.

use std::time::Duration;

use maud::{Markup, html};

use super::parts::{Column, MAX_ROWS, Section, count, duration, empty, facts, name, table};
use crate::{ElectionOptions, LeaseTimes, ManagerOptions, ShardOptions, observe::pages::PageState};

pub(super) const LEAD: &str = "The options of this process.";

pub(super) fn sections(data: &PageState) -> Vec<Section> {
    let options = &data.browser.options;
    let election = options.election.as_ref();
    let shards = options.shards.as_ref();
    vec![
        Section::new("manager", "Manager", manager(options)),
        Section::new(
            "election",
            "Election",
            election.map_or_else(|| empty("Leader election is off."), election_facts),
        ),
        Section::new(
            "sharding",
            "Shards",
            shards.map_or_else(|| empty("This manager has no shards."), shard_facts),
        ),
        Section::new("controllers", "Controllers", controllers(data)),
    ]
}

fn manager(options: &ManagerOptions) -> Markup {
    let address = |address: Option<std::net::SocketAddr>| {
        html! { @if let Some(address) = address { (address) } @else { "none" } }
    };
    facts(&[
        ("Version of kube-operator", html! { (env!("CARGO_PKG_VERSION")) }),
        ("Address of the pages", address(options.bind_address)),
        ("Address of the probes", address(options.probe_address)),
        ("Protection of the pages", html! { (protection(options)) }),
        ("Changed fields are recorded", html! { (yes_or_no(options.explain_changes)) }),
        ("Timeout of the initial lists", html! { (duration(options.cache_sync_timeout)) }),
        ("Grace period of the shutdown", html! { (duration(options.graceful_shutdown_timeout)) }),
    ])
}

#[cfg(feature = "tls")]
fn protection(options: &ManagerOptions) -> &'static str {
    match &options.secure_serving {
        None => "plain HTTP, without tokens",
        Some(secure) if secure.authorize => "TLS, with a token for each request",
        Some(_) => "TLS, without tokens",
    }
}

#[cfg(not(feature = "tls"))]
fn protection(_: &ManagerOptions) -> &'static str {
    "plain HTTP, without tokens"
}

fn election_facts(election: &ElectionOptions) -> Markup {
    let lease = format!("{}/{}", election.namespace, election.name);
    let [lease_duration, renew_deadline, retry_period] = times(election.times);
    facts(&[
        ("Lease", html! { (name(&lease)) }),
        ("Identity of this process", html! { (name(&election.identity)) }),
        lease_duration,
        renew_deadline,
        retry_period,
    ])
}

fn shard_facts(shards: &ShardOptions) -> Markup {
    let group = format!("{}/{}", shards.namespace, shards.name);
    let [lease_duration, renew_deadline, retry_period] = times(shards.times);
    facts(&[
        ("Group", html! { (name(&group)) }),
        ("Number of slots", html! { (shards.count.get()) }),
        ("Weight of this process", html! { (shards.weight) }),
        ("Caches slots of a process that may crash", html! { (yes_or_no(shards.standby)) }),
        ("Delay before a slot moves", html! { (duration(shards.settle_time)) }),
        lease_duration,
        renew_deadline,
        retry_period,
    ])
}

fn times(times: LeaseTimes) -> [(&'static str, Markup); 3] {
    let text = |time: Duration| html! { (duration(time)) };
    [
        ("Lease duration", text(times.lease_duration)),
        ("Renew deadline", text(times.renew_deadline)),
        ("Retry period", text(times.retry_period)),
    ]
}

fn controllers(data: &PageState) -> Markup {
    let all = data.view.controllers.current();
    if all.is_empty() {
        return empty("This manager has no controllers.");
    }
    let columns = [
        Column::Text("Controller"),
        Column::Number("Concurrency"),
        Column::Number("Timeout of a reconcile"),
        Column::Number("Requeue after a success"),
        Column::Number("Debounce"),
    ];
    let optional = |time: Option<Duration>| time.map_or_else(|| "none".to_owned(), duration);
    let rows: Vec<_> = all
        .iter()
        .take(MAX_ROWS)
        .map(|controller| {
            let options = &controller.options;
            let debounce = (!options.debounce.is_zero()).then_some(options.debounce);
            vec![
                html! { (name(&options.name)) },
                html! { (count(options.concurrency as u64)) },
                html! { (optional(options.reconcile_timeout)) },
                html! { (optional(options.requeue_after_success)) },
                html! { (optional(debounce)) },
            ]
        })
        .collect();
    table("Options of each controller", &columns, &rows, all.len().saturating_sub(MAX_ROWS))
}

fn yes_or_no(is_set: bool) -> &'static str {
    if is_set { "yes" } else { "no" }
}
