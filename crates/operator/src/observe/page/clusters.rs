//! The clusters of a manager with many clusters.

use maud::{Markup, html};

use super::parts::{Column, Level, MAX_ROWS, Section, ago, count, empty, error_text, name, state, table};
use crate::{ClusterState, ClusterStatus, Clusters, observe::pages::PageState};

pub(super) const LEAD: &str = "The clusters whose objects this operator reconciles.";

pub(super) fn sections(data: &PageState) -> Vec<Section> {
    let body = match &data.view.clusters {
        Some(clusters) => clusters_table(clusters),
        None => empty("This manager uses one cluster."),
    };
    vec![Section::new("clusters", "Clusters", body)]
}

fn clusters_table(clusters: &Clusters) -> Markup {
    let mut all = clusters.status();
    if all.is_empty() {
        return empty("No cluster has joined yet.");
    }
    // Problems first, so that the limit of the rows does not hide them.
    all.sort_by_key(|cluster| std::cmp::Reverse(level(cluster) as u8));
    let columns = [
        Column::Text("Cluster"),
        Column::Text("State"),
        Column::Number("Joined"),
        Column::Number("Caches"),
        Column::Number("Objects"),
    ];
    let row = |cluster: &ClusterStatus| {
        let text = match cluster.state {
            ClusterState::OtherReplica => "other replica".to_owned(),
            other => other.to_string(),
        };
        vec![
            html! { (name(cluster.name.as_str())) },
            html! {
                (state(level(cluster), &text))
                @if let Some(problem) = &cluster.problem { span.detail { (error_text(problem)) } }
            },
            html! { (ago(cluster.engaged)) },
            html! { (count(cluster.informers.len() as u64)) },
            html! { (count(cluster.objects() as u64)) },
        ]
    };
    let rows: Vec<_> = all.iter().take(MAX_ROWS).map(row).collect();
    table("State of each cluster", &columns, &rows, all.len().saturating_sub(MAX_ROWS))
}

fn level(cluster: &ClusterStatus) -> Level {
    match cluster.state {
        ClusterState::Starting => Level::Warning,
        ClusterState::Synced => Level::Good,
        ClusterState::Failing => Level::Bad,
        ClusterState::OtherReplica => Level::Neutral,
    }
}
