//! `View`: the pages, with their paths, titles and contents.

use axum::http::StatusCode;

use super::{caches, clusters, configuration, key, overview, parts::Section, queues, reconciles, replicas};
use crate::observe::pages::PageState;

/// Selects a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    Overview,
    Caches,
    Queues,
    Reconciles,
    Replicas,
    Clusters,
    Configuration,
    Key { controller: String, key: String },
}

/// The content of a page.
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) title: String,
    /// A sentence about the purpose of the page.
    pub(super) lead: &'static str,
    pub(super) sections: Vec<Section>,
}

impl View {
    /// The pages with a link in the navigation.
    pub(super) const LINKED: [Self; 7] = [
        Self::Overview,
        Self::Caches,
        Self::Queues,
        Self::Reconciles,
        Self::Replicas,
        Self::Clusters,
        Self::Configuration,
    ];

    /// Returns the path, except for the page of a key.
    pub(super) fn path(&self) -> &'static str {
        match self {
            Self::Overview => "/",
            Self::Caches => "/ui/caches",
            Self::Queues => "/ui/queues",
            Self::Reconciles | Self::Key { .. } => "/ui/reconciles",
            Self::Replicas => "/ui/replicas",
            Self::Clusters => "/ui/clusters",
            Self::Configuration => "/ui/configuration",
        }
    }

    /// Returns the name in the navigation. `None` if the page does not apply to this manager.
    pub(super) fn link(&self, state: &PageState) -> Option<&'static str> {
        Some(match self {
            Self::Overview => "Overview",
            Self::Caches => "Caches",
            Self::Queues => "Queues",
            Self::Reconciles => "Reconciles",
            Self::Replicas => "Replicas",
            Self::Clusters if state.view.clusters.is_some() => "Clusters",
            Self::Clusters | Self::Key { .. } => return None,
            Self::Configuration => "Configuration",
        })
    }

    /// Returns the current content.
    pub(super) fn render(&self, state: &PageState) -> Page {
        let page = |title: &str, lead, sections| Page {
            status: StatusCode::OK,
            title: title.to_owned(),
            lead,
            sections,
        };
        match self {
            Self::Overview => page("Overview", overview::LEAD, overview::sections(state)),
            Self::Caches => page("Caches", caches::LEAD, caches::sections(state)),
            Self::Queues => page("Queues", queues::LEAD, queues::sections(state)),
            Self::Reconciles => page("Reconciles", reconciles::LEAD, reconciles::sections(state)),
            Self::Replicas => page("Replicas", replicas::LEAD, replicas::sections(state)),
            Self::Clusters => page("Clusters", clusters::LEAD, clusters::sections(state)),
            Self::Configuration => page("Configuration", configuration::LEAD, configuration::sections(state)),
            Self::Key { controller, key } => key::page(state, controller, key),
        }
    }
}
