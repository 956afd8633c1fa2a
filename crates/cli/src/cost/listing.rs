//! Lists the objects of a resource page by page. Only compressed objects stay in memory.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::TryStreamExt as _;
use kube_client::{Client, core::DynamicObject};
use kube_compact::{Compressed, Lazy};
use kube_informer::{
    ErrorClass, LabelSelector, ListWatch, ListWatchError, ListerWatcher as _, ObjectKey, ResourceVersion,
    listwatch::{Decoded, ListAt, ListPart, ListRequest, Target as ErrorTarget, Verb},
};
use kube_object::{NoCache, TypeMeta};
use tokio::time::{Instant, sleep};

use super::{
    forms::{FieldPath, FormsDecoder},
    progress::Progress,
    selectors::Selectors,
    usage::Usage,
};
use crate::resources::ServerResource;

/// The objects of a page, as in client-go.
pub(super) const PAGE_OBJECTS: u32 = 500;
/// The number of times that a list is started, if its continue token expires or the server is overloaded.
const ATTEMPTS: usize = 3;
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The maximum number of pages, as in the reflector of this project: 5,000,000 objects.
const MAX_PAGES: u32 = 10_000;
/// The maximum number of consecutive pages without objects.
const MAX_EMPTY_PAGES: u32 = 16;

/// The objects of a cache: a resource, in one namespace or in all.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) resource: ServerResource,
    pub(super) namespace: Option<String>,
}

/// The options of all lists.
#[derive(Clone, Debug, Default)]
pub(super) struct ListSettings {
    pub(super) label_selector: Option<String>,
    pub(super) field_selector: Option<String>,
    /// The fields of the projection.
    pub(super) fields: Vec<FieldPath>,
    /// The selectors of `--try-selector`.
    pub(super) selectors: Vec<(String, LabelSelector)>,
    /// Whether to hold the objects, for a comparison with their later versions.
    pub(super) holds_objects: bool,
}

/// A source of undecoded objects.
pub(super) type Source = ListWatch<Lazy<DynamicObject>>;

/// The compressed objects of a resource.
pub(super) type Held = HashMap<ObjectKey, Compressed<DynamicObject>>;

/// A complete list of a resource.
pub(super) struct Listed {
    pub(super) target: Target,
    pub(super) usage: Usage,
    pub(super) decoder: FormsDecoder,
    pub(super) selectors: Selectors,
    pub(super) held: Held,
    pub(super) version: ResourceVersion,
    /// When the server had this version.
    pub(super) since: Instant,
    /// The number of pages.
    pub(super) requests: u64,
}

impl Target {
    /// Creates a source of all objects of the target, with managedFields.
    pub(super) fn source(&self, client: &Client, settings: &ListSettings) -> Source {
        let fields = settings.field_selector.as_deref().unwrap_or_default();
        let resource = &self.resource.resource;
        let source = Source::from_client(client.clone(), resource, self.namespace.as_deref(), fields);
        let source = source.keep_managed_fields();
        match &settings.label_selector {
            Some(labels) => source.labels(labels),
            None => source,
        }
    }

    /// Returns the name of the resource, with the namespace of the target.
    pub(super) fn name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} in {namespace}", self.resource.name()),
            None => self.resource.name(),
        }
    }
}

/// Lists all objects of a target. Starts the list again if its token expires, or if the server is overloaded.
///
/// # Errors
///
/// Returns the error of the server, for example because the user lacks permission.
///
/// # Cancel safety
///
/// If the future is dropped, the request is cancelled, and the objects are dropped.
pub(super) async fn list(
    target: &Target,
    source: &Source,
    settings: &ListSettings,
    progress: &Progress,
) -> Result<Listed, ListWatchError> {
    let mut attempt = 1;
    loop {
        let listed = list_once(target, source, settings, progress).await;
        let is_temporary = |error: &ListWatchError| {
            let is_temporary =
                matches!(error.class(), ErrorClass::Expired | ErrorClass::Overloaded | ErrorClass::Broken);
            is_temporary && !matches!(error, ListWatchError::EndlessPages { .. })
        };
        match listed {
            Err(error) if attempt < ATTEMPTS && is_temporary(&error) => {
                attempt += 1;
                sleep(RETRY_DELAY).await;
            }
            result => return result,
        }
    }
}

async fn list_once(
    target: &Target,
    source: &Source,
    settings: &ListSettings,
    progress: &Progress,
) -> Result<Listed, ListWatchError> {
    let resource = &target.resource.resource;
    let kind = TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() };
    let mut listed = Listed {
        target: target.clone(),
        usage: Usage::default(),
        decoder: FormsDecoder::new(&kind, &settings.fields),
        selectors: Selectors::new(&target.resource.name(), &settings.selectors),
        held: Held::new(),
        version: ResourceVersion::new(""),
        since: Instant::now(),
        requests: 0,
    };
    let mut at = ListAt::Consistent;
    let mut pages = Pages::default();
    loop {
        let request = ListRequest { at, limit: Some(PAGE_OBJECTS) };
        let mut parts = source.list(request, Arc::new(NoCache));
        listed.requests += 1;
        let mut next = None;
        let before = listed.usage.objects();
        while let Some(part) = parts.try_next().await? {
            match part {
                ListPart::Items { items, nameless } => {
                    listed.usage.undecodable += nameless.len() as u64;
                    items.iter().for_each(|item| listed.add(item, settings.holds_objects));
                    progress.listed(listed.usage.features.objects, listed.usage.json_bytes());
                }
                ListPart::OtherSlots { .. } => {}
                ListPart::End(end) => {
                    progress.remaining(listed.usage.features.objects, end.remaining);
                    listed.version = end.version;
                    next = end.next;
                }
            }
        }
        let Some(token) = next else { return Ok(listed) };
        if pages.is_endless(&token, listed.usage.objects() == before) {
            let target = ErrorTarget { verb: Verb::List, url: source.path() };
            return Err(ListWatchError::EndlessPages { target, pages: pages.count });
        }
        at = ListAt::Continue(token);
    }
}

/// The received pages of a list.
#[derive(Debug, Default)]
struct Pages {
    count: u32,
    empty: u32,
    /// The last two continue tokens.
    tokens: [String; 2],
}

impl Pages {
    /// Adds a page with its continue token. Returns whether the pages probably do not end: a server that
    /// ignores the token returns the same pages indefinitely.
    fn is_endless(&mut self, token: &str, is_empty: bool) -> bool {
        self.count += 1;
        self.empty = if is_empty { self.empty + 1 } else { 0 };
        let is_repeated = self.tokens.iter().any(|before| before == token);
        self.tokens.rotate_left(1);
        token.clone_into(&mut self.tokens[1]);
        is_repeated || self.count >= MAX_PAGES || self.empty >= MAX_EMPTY_PAGES
    }
}

impl Listed {
    /// Adds an item of a page.
    fn add(&mut self, item: &Decoded<Lazy<DynamicObject>>, holds_objects: bool) {
        let Decoded::Object(entry) = item else {
            self.usage.undecodable += 1;
            return;
        };
        let json = entry.object.json();
        // The usage counts an object that cannot be decoded.
        let _ = self.usage.add(&entry.id, json, &self.decoder, &self.selectors);
        if holds_objects && let Ok(object) = self.decoder.compress(json) {
            self.held.insert(entry.id.key.clone(), object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_tokens_and_empty_pages_are_endless() {
        let mut pages = Pages::default();
        let tokens = ["a", "b", "c", "a", "d"];
        assert!(!tokens.iter().any(|token| pages.is_endless(token, false)));
        assert!(pages.is_endless("a", false) && pages.is_endless("a", false));
        let mut pages = Pages::default();
        let count = (0..100).take_while(|number| !pages.is_endless(&number.to_string(), true)).count();
        assert_eq!(count, MAX_EMPTY_PAGES as usize - 1);
    }

    #[test]
    fn number_of_pages_is_limited() {
        let mut pages = Pages::default();
        let count =
            (0..2 * MAX_PAGES).take_while(|number| !pages.is_endless(&number.to_string(), false)).count();
        assert_eq!(count, MAX_PAGES as usize - 1);
    }
}
