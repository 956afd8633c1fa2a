//! LIST: one page of a consistent snapshot.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use crate::encoding::body::ListBody;
use crate::encoding::object_encoder::{ListMeta, ObjectEncoder};
use crate::read::options::{ListOptions, ListPosition};
use crate::read::token::Token;
use crate::state::cache::Cache;
use crate::state::{Served, Shared, State};
use crate::status::Status;
use crate::storage::entry::Entry;
use crate::storage::log::{Store, TableId};
use crate::storage::snapshot::Snapshot;

pub(crate) struct Page {
    pub items: VecDeque<Arc<Entry>>,
    pub meta: ListMeta,
}

impl Page {
    pub(crate) fn body(mut self, encoder: ObjectEncoder) -> ListBody {
        self.meta.shard = self.meta.shard.filter(|_| encoder.shows_shard());
        let empty = self.items.is_empty();
        let (head, tail) = (encoder.list_head(&self.meta, empty), encoder.list_tail(&self.meta, empty));
        ListBody::new(head, self.items, tail, encoder)
    }
}

/// Returns the prefix of the keys in a namespace, or of all keys.
pub(crate) fn prefix(namespace: Option<&str>) -> String {
    namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default()
}

/// Reads a page.
///
/// # Cancel safety
/// The future does not change any state. It can be dropped at any time.
pub(crate) async fn list(
    shared: &Shared,
    cache: &Cache,
    served: &Served,
    namespace: Option<&str>,
    options: &ListOptions,
) -> Result<Page, Status> {
    let fresh = match options.at {
        // If the cache does not catch up in time, the storage serves the request instead.
        ListPosition::Latest => cache.reach(shared, served, shared.revision()).await.is_ok(),
        ListPosition::NotOlderThan(revision) => cache.reach(shared, served, revision).await.map(|()| true)?,
        // After a restore, a token can contain a revision that the server has not reached again.
        ListPosition::Exactly(revision) | ListPosition::Continue(Token { revision: Some(revision), .. }) => {
            shared.reach(revision).await.map(|()| true)?
        }
        ListPosition::Any | ListPosition::Continue(Token { revision: None, .. }) => true,
    };
    shared.age();
    let prefix = prefix(namespace);
    // Limits apply to reads from etcd. A watch cache that may serve any version returns all objects in
    // one page.
    let unlimited = ListOptions { limit: None, ..options.clone() };
    let cached = options.at == ListPosition::Any && shared.config.watch_cache;
    // A single object is fetched by its key, so there is no next page.
    let single =
        options.select.fields.is_one_name() && (namespace.is_some() || !served.kind.rules.namespaced);
    let options = if cached || single { &unlimited } else { options };
    shared.read(|state| {
        let table = served.table;
        match &options.at {
            ListPosition::Latest | ListPosition::Any | ListPosition::NotOlderThan(_) => {
                let cached = state.store.position_of(table, cache.id(), Instant::now());
                let revision = if fresh { cached } else { state.store.revision() };
                page_at(state, table, &prefix, "", revision, options)
            }
            ListPosition::Exactly(revision) => {
                let snapshot = state.store.table(table).at(*revision).map_err(|_| Status::list_expired())?;
                page(&state.store, &snapshot, &prefix, "", *revision, options)
            }
            ListPosition::Continue(token) => continue_page(state, table, &prefix, token, options),
        }
    })
}

fn continue_page(
    state: &State,
    table: TableId,
    prefix: &str,
    token: &Token,
    options: &ListOptions,
) -> Result<Page, Status> {
    let start = format!("{prefix}{}", token.start);
    let Some(revision) = token.revision else {
        return page_at(state, table, prefix, &start, state.store.revision(), options);
    };
    let snapshot = state.store.table(table).at(revision).map_err(|_| {
        let loose = Token { revision: None, start: token.start.clone() };
        Status::continue_expired(loose.encode())
    })?;
    page(&state.store, &snapshot, prefix, &start, revision, options)
}

/// Returns a page of the state at a revision that is available.
fn page_at(
    state: &State,
    table: TableId,
    prefix: &str,
    start: &str,
    revision: u64,
    options: &ListOptions,
) -> Result<Page, Status> {
    page(&state.store, &state.store.table(table).then(revision), prefix, start, revision, options)
}

fn page(
    store: &Store,
    snapshot: &Snapshot<'_>,
    prefix: &str,
    start: &str,
    revision: u64,
    options: &ListOptions,
) -> Result<Page, Status> {
    let mut walk = snapshot.walk(prefix, start);
    let mut items = VecDeque::new();
    let everything = options.select.is_everything();
    let mut seen = 0;
    for entry in walk.by_ref() {
        seen += 1;
        if !store.decodes(entry) {
            return Err(Status::undecodable());
        }
        if everything || options.select.matches(&entry.essentials) {
            items.push_back(entry.clone());
        }
        if options.limit.is_some_and(|limit| items.len() >= limit) {
            break;
        }
    }
    let shard = options.select.shard.as_ref().map(ToString::to_string);
    let mut meta = ListMeta { revision, shard, ..ListMeta::default() };
    if walk.next().is_some() {
        let last = items.back().map_or("", |entry| entry.key());
        let start = last.strip_prefix(prefix).unwrap_or("");
        meta.continue_token = Some(Token { revision: Some(revision), start: format!("{start}\0") }.encode());
        // The real server counts the remaining objects of all shards.
        meta.remaining = options.select.is_all_of_shard().then(|| seen + 1 + walk.count() - items.len());
    }
    Ok(Page { items, meta })
}
