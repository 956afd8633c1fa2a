//! LIST: one page of a consistent snapshot.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::http::body::ListBody;
use crate::http::query::{At, ListOptions, Selection};
use crate::http::view::{ListMeta, View};
use crate::read::token::Token;
use crate::state::{Served, Shared, State};
use crate::status::Status;
use crate::storage::entry::Entry;
use crate::storage::log::Compacted;

/// The objects of one page and what its metadata says.
pub(crate) struct Page {
    pub items: VecDeque<Arc<Entry>>,
    pub meta: ListMeta,
}

impl Page {
    pub(crate) fn body(self, view: View) -> ListBody {
        let (head, tail) = (
            view.list_head(&self.meta, self.items.is_empty()),
            view.list_tail(&self.meta, self.items.is_empty()),
        );
        ListBody::new(head, self.items, tail, view)
    }
}

/// The keys of a namespace, or of everything.
pub(crate) fn prefix(namespace: Option<&str>) -> String {
    namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default()
}

/// Reads a page.
///
/// # Cancel safety
/// Nothing is changed, so it may be dropped at any time.
pub(crate) async fn list(
    shared: &Shared,
    served: &Served,
    namespace: Option<&str>,
    options: &ListOptions,
) -> Result<Page, Status> {
    if let At::NotOlderThan(revision) | At::Exactly(revision) = options.at {
        shared.reach(revision).await?;
    }
    shared.age();
    let prefix = prefix(namespace);
    // Limits are for reads from etcd: a watch cache that is asked for whatever it has answers in one piece.
    let unlimited = ListOptions { limit: None, ..options.clone() };
    let cached = options.at == At::Any && shared.config.watch_cache;
    // One object is fetched by its key, so there is no more of it to continue with.
    let single =
        options.select.fields.is_one_name() && (namespace.is_some() || !served.kind.rules.namespaced);
    let options = if cached || single { &unlimited } else { options };
    shared.read(|state| match &options.at {
        At::Latest | At::Any | At::NotOlderThan(_) => Ok(now(state, served, &prefix, "", options)),
        At::Exactly(revision) => {
            then(state, served, &prefix, "", *revision, options).map_err(|_| Status::list_expired())
        }
        At::Continue(token) => go_on(state, served, &prefix, token, options),
    })
}

fn go_on(
    state: &State,
    served: &Served,
    prefix: &str,
    token: &Token,
    options: &ListOptions,
) -> Result<Page, Status> {
    let start = format!("{prefix}{}", token.start);
    match token.revision {
        None => Ok(now(state, served, prefix, &start, options)),
        Some(revision) => then(state, served, prefix, &start, revision, options).map_err(|_| {
            let loose = Token { revision: None, start: token.start.clone() };
            Status::continue_expired(loose.encode())
        }),
    }
}

fn now(state: &State, served: &Served, prefix: &str, start: &str, options: &ListOptions) -> Page {
    let revision = state.store.revision();
    then(state, served, prefix, start, revision, options).unwrap_or_else(|_| Page {
        items: VecDeque::new(),
        meta: ListMeta { revision, ..ListMeta::default() },
    })
}

fn then(
    state: &State,
    served: &Served,
    prefix: &str,
    start: &str,
    revision: u64,
    options: &ListOptions,
) -> Result<Page, Compacted> {
    let snapshot = state.store.table(served.table).at(revision)?;
    let walk = snapshot.walk(prefix, start);
    Ok(page(walk, prefix, revision, options.limit, &options.select))
}

fn page<'a>(
    mut walk: impl Iterator<Item = &'a Arc<Entry>>,
    prefix: &str,
    revision: u64,
    limit: Option<usize>,
    select: &Selection,
) -> Page {
    let mut items = VecDeque::new();
    let everything = select.is_everything();
    let mut seen = 0;
    for entry in walk.by_ref() {
        seen += 1;
        if everything || select.matches(&entry.essentials) {
            items.push_back(entry.clone());
        }
        if limit.is_some_and(|limit| items.len() >= limit) {
            break;
        }
    }
    let shard = select.shard.as_ref().map(ToString::to_string);
    let mut meta = ListMeta { revision, shard, ..ListMeta::default() };
    if walk.next().is_some() {
        let last = items.back().map_or("", |entry| entry.key());
        let start = last.strip_prefix(prefix).unwrap_or("");
        meta.continue_token = Some(Token { revision: Some(revision), start: format!("{start}\0") }.encode());
        // The real server counts what is not sent, whatever its shard.
        meta.remaining = select.is_all_of_shard().then(|| seen + 1 + walk.count() - items.len());
    }
    Page { items, meta }
}
