//! The replicas: the leader, and the slots of each process.

use kube_informer::SlotSet;
use maud::{Markup, html};

use super::parts::{
    Column, Level, MAX_ROWS, Section, count, duration, empty, error_text, facts, name, state, table,
};
use crate::{
    OwnedSlots,
    election::ElectionView,
    observe::{health::leader_text, pages::PageState},
};

pub(super) const LEAD: &str = "The leader, and the slots of each process.";

pub(super) fn sections(data: &PageState) -> Vec<Section> {
    let leader = match &data.view.election {
        Some(election) => leader_facts(election),
        None => empty("Leader election is off. Each process acts as the leader."),
    };
    let shards = match &data.view.shards {
        Some(shards) => shards_facts(shards),
        None => empty("This manager has no shards, so it does not divide its objects among processes."),
    };
    vec![Section::new("leader", "Leader", leader), Section::new("shards", "Shards", shards)]
}

fn leader_facts(election: &ElectionView) -> Markup {
    let is_leader = election.leadership.is_leader();
    let level = if is_leader { Level::Good } else { Level::Neutral };
    let error = election.last_error.borrow().clone();
    facts(&[
        ("Leader", state(level, &leader_text(election))),
        ("Lease", html! { (name(&election.lease.to_string())) }),
        (
            "Last error",
            html! {
                @if let Some(error) = error { span.error { (error_text(&error)) } } @else { span.quiet { "none" } }
            },
        ),
    ])
}

fn shards_facts(shards: &OwnedSlots) -> Markup {
    let view = shards.view();
    let moves = &view.moves;
    let waiting: SlotSet = moves.waiting.keys().copied().collect();
    let slots = |slots: &SlotSet| {
        let text = slots.to_string();
        html! { (count(slots.len() as u64)) @if !text.is_empty() { span.detail { (name(&text)) } } }
    };
    let columns = [Column::Text("Process"), Column::Text("Slots")];
    let rows: Vec<_> = view
        .members
        .iter()
        .take(MAX_ROWS)
        .map(|(member, slots)| {
            let own = if *member == view.name { " (this process)" } else { "" };
            vec![html! { (name(member)) (own) }, html! { (name(slots)) }]
        })
        .collect();
    html! {
        @if let Some(refusal) = &view.refusal {
            p { (state(Level::Bad, "Not a member")) " " span.error { (error_text(refusal)) } }
        }
        (facts(&[
            ("Group", html! { (name(shards.group())) }),
            ("Slots of this process", slots(&shards.get())),
            ("Waiting for caches", slots(&waiting)),
            ("Moving to another process", slots(&view.stopping)),
            ("Without an owner", slots(&view.unowned)),
            ("Claimed, released, lost", html! {
                (count(moves.claimed)) ", " (count(moves.released)) ", " (count(moves.lost))
            }),
            ("Total wait for caches", html! { (duration(moves.wait)) }),
        ]))
        @if rows.is_empty() { (empty("No process owns slots yet.")) }
        @else { (table("Slots of each process", &columns, &rows, view.members.len().saturating_sub(MAX_ROWS))) }
    }
}
