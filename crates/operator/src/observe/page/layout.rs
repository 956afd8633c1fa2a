//! The document around the sections of a page.

use maud::{DOCTYPE, Markup, html};

use super::{
    parts::{Level, name, state},
    view::{Page, View},
};
use crate::observe::{ManagerPhase, health::leader_text, pages::PageState};

/// The element that contains the state of the manager.
pub(super) const STATE_ID: &str = "manager-state";

/// Returns the complete document of a page.
pub(super) fn document(data: &PageState, view: &View, page: &Page) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title) " · " (operator_name(data)) }
                link rel="icon" type="image/svg+xml" href="/ui/assets/icon.svg";
                link rel="stylesheet" href="/ui/assets/page.css";
                script src="/ui/assets/page.js" defer {}
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    div.top {
                        a.brand href="/" { (operator_name(data)) }
                        (manager_state(data))
                        span.spring {}
                        p #live role="status" { "Reload the page for new values." }
                    }
                    nav aria-label="Pages" { ul {
                        @for linked in View::LINKED {
                            @if let Some(name) = linked.link(data) {
                                li { a href=(linked.path()) aria-current=[current(&linked, view)] { (name) } }
                            }
                        }
                    } }
                }
                main #content tabindex="-1" {
                    h1 { (page.title) }
                    p.lead { (page.lead) }
                    @for section in &page.sections { (section.markup()) }
                }
                footer {
                    "kube-operator " (env!("CARGO_PKG_VERSION")) ". The pages contain no contents of objects. "
                    a href="/metrics" { "Metrics" } ", " a href="/readyz" { "readiness" } " and "
                    a href="/debug/queues" { "JSON" } "."
                }
            }
        }
    }
}

/// Returns the name of the lease or of the shard group, which is usually the name of the operator.
fn operator_name(data: &PageState) -> String {
    let lease = data.view.election.as_ref().map(|election| name(election.lease.name()));
    let group = data.view.shards.as_ref().map(|shards| name(shards.group()));
    lease.or(group).unwrap_or_else(|| "Operator".to_owned())
}

/// Returns whether a link refers to the current page, for screen readers.
fn current(linked: &View, view: &View) -> Option<&'static str> {
    match (linked, view) {
        (View::Reconciles, View::Key { .. }) => Some("true"),
        (linked, view) => (linked == view).then_some("page"),
    }
}

/// Returns the phase of the manager, and which process is the leader.
pub(super) fn manager_state(data: &PageState) -> Markup {
    let (level, phase) = match *data.phase.borrow() {
        ManagerPhase::Starting => (Level::Warning, "Starting"),
        ManagerPhase::Running => (Level::Good, "Running"),
        ManagerPhase::Stopping => (Level::Warning, "Stopping"),
    };
    let election = data.view.election.as_ref();
    html! {
        div id=(STATE_ID) class="manager" {
            (state(level, phase))
            @if let Some(election) = election {
                @let level = if election.leadership.is_leader() { Level::Good } else { Level::Neutral };
                (state(level, &leader_text(election)))
            }
        }
    }
}
