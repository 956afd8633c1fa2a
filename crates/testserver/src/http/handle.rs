//! Dispatches a request to the handler of its verb.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::encoding::body::Body;
use crate::encoding::gzip;
use crate::encoding::object_encoder::{Negotiated, ObjectEncoder, Requested, negotiate};
use crate::faults::{Fault, StreamingLists};
use crate::http::discovery;
use crate::http::path_checks;
use crate::http::review;
use crate::http::service::{Call, json, page_not_found, stream};
use crate::http::subresources;
use crate::journal::Verb;
use crate::read::conversion;
use crate::read::list::list;
use crate::read::options::{
    has_initial_events_parameter, list_options, streaming_unsupported, watch_options,
};
use crate::read::watch::WatchInputs;
use crate::schemas::tables::{self, IncludeObject, TableFormat};
use crate::state::{Served, Shared};
use crate::status::Status;
use crate::storage::log::key;
use crate::wire::accept;
use crate::wire::object::media_type;
use crate::wire::query::parse_version;
use crate::wire::route::{ResourcePath, Route};
use crate::write::admission::Caller;
use crate::write::decode;
use crate::write::delete::Deleted;
use crate::write::delete_options;
use crate::write::patch::PatchRequest;
use crate::write::{self, Mode, Part, Target, Via, WriteOptions, Written};
use crate::write::{escalation, unsupported};

type HandlerResult = Result<Response<Body>, Status>;

/// The only deprecated version of a built-in kind that the server serves.
const ENDPOINTS_WARNING: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// Handles a request.
///
/// # Cancel safety
/// Cancel safe, because each write is atomic.
pub(crate) async fn handle(
    shared: &Arc<Shared>,
    closing: &watch::Receiver<bool>,
    call: Call,
    body: Bytes,
) -> HandlerResult {
    match &call.route {
        Route::Resource(path) => {
            let path = path.clone();
            Box::pin(resource(shared, closing, call, &path, body)).await
        }
        _ => discovery::respond(shared, &call),
    }
}

/// Responds to a request for an unknown resource of a served version. If the version contains only
/// custom resources, the response is the same as for an unknown version.
fn resource_not_served(shared: &Shared, path: &ResourcePath) -> HandlerResult {
    let custom = shared.read(|state| {
        let all = state.registry.resources(&path.group, &path.version);
        all.is_some_and(|all| all.values().all(|served| served.kind.rules.custom))
    });
    if custom { Ok(page_not_found()) } else { Err(Status::no_such_resource()) }
}

async fn resource(
    shared: &Arc<Shared>,
    closing: &watch::Receiver<bool>,
    call: Call,
    path: &ResourcePath,
    body: Bytes,
) -> HandlerResult {
    if let Some(review) = review::find(path) {
        return review.respond(shared, path, &call, &body);
    }
    let is_served = shared.read(|state| state.registry.resources(&path.group, &path.version).is_some());
    if !is_served {
        return discovery::not_served(&path.group);
    }
    let served = shared.find(&path.group, &path.version, &path.resource);
    let in_namespace = path.namespace.is_some() || path.unnamed_namespace;
    let served = served.filter(|served| served.kind.rules.namespaced || !in_namespace);
    let Some(served) = served else { return resource_not_served(shared, path) };
    if path.group.is_empty() && path.resource == "endpoints" {
        call.warnings.add([ENDPOINTS_WARNING.to_owned()]);
    }
    let inside = !served.kind.rules.namespaced || path.namespace.is_some();
    let part = part(shared, &served, path)?;
    let method = &call.parts.method;
    // For custom resources, only the verb matters.
    if !served.kind.rules.custom && (*method == Method::HEAD || path.watch && *method != Method::GET) {
        return Err(Status::method_not_allowed());
    }
    let target = |served: Served| target(served, path);
    match call.info.verb {
        Verb::List => collection(shared, &served, path, &call).await,
        Verb::Watch => open_watch(shared, closing, served, path, call),
        verb if !inside => path_checks::missing_namespace(&served.kind, path, verb),
        verb if verb != Verb::Create && is_undecodable(shared, &served, path) => Err(Status::undecodable()),
        Verb::Create if part == Part::Binding => {
            subresources::bind(shared, &target(served), &call, &body).await
        }
        Verb::Create if part == Part::Eviction => {
            subresources::evict(shared, &target(served), &call, &body).await
        }
        _ if matches!(part, Part::Binding | Part::Eviction) => Err(Status::method_not_allowed()),
        Verb::Get | Verb::Update | Verb::Patch if part == Part::Scale => {
            let encoder = encoder(shared, &call, &served, Requested::Object)?;
            subresources::scale(shared, &target(served), &encoder, &call, &body).await
        }
        Verb::Create | Verb::Delete
            if served.kind.rules.custom && matches!(part, Part::Status | Part::Scale) =>
        {
            let verb = if call.info.verb == Verb::Create { "create" } else { "delete" };
            Err(Status::verb_not_supported(served.kind.named(), verb))
        }
        Verb::Get | Verb::Patch if part == Part::Finalize => Err(Status::method_not_allowed()),
        Verb::Get => get(shared, &target(served), &call).await,
        Verb::Create if path.name.is_none() => Box::pin(create(shared, &target(served), &call, &body)).await,
        Verb::Update if path.name.is_some() => {
            Box::pin(update(shared, &target(served), part, &call, &body)).await
        }
        Verb::Patch if path.name.is_some() => {
            Box::pin(patch(shared, &target(served), part, &call, &body)).await
        }
        Verb::Delete if part == Part::Main => Box::pin(delete(shared, &target(served), &call, &body)).await,
        Verb::DeleteCollection if !served.kind.is_namespace() => {
            delete_collection(shared, &served, path, &call, &body).await
        }
        verb => Err(path_checks::unsupported_verb(&served.kind, verb)),
    }
}

fn is_undecodable(shared: &Shared, served: &Served, path: &ResourcePath) -> bool {
    let Some(name) = &path.name else { return false };
    shared.read(|state| {
        let entry = state.store.table(served.table).get(&key(path.namespace.as_deref(), name));
        entry.is_some_and(|entry| !state.store.decodes(entry))
    })
}

/// Returns the part of the object that the path addresses: the object itself, or a subresource.
fn part(shared: &Shared, served: &Served, path: &ResourcePath) -> Result<Part, Status> {
    match path.subresource.as_deref() {
        None => Ok(Part::Main),
        Some("status") if served.kind.rules.status => Ok(Part::Status),
        Some("finalize") if served.kind.is_namespace() => Ok(Part::Finalize),
        Some("scale") if served.kind.scale.is_some() => Ok(Part::Scale),
        Some("binding") if served.kind.is_pod() => Ok(Part::Binding),
        Some("eviction") if served.kind.is_pod() => Ok(Part::Eviction),
        Some(_) if served.kind.rules.custom => {
            Err(Status::not_found(served.kind.named(), path.name.as_deref().unwrap_or("")))
        }
        Some(other) => {
            unsupported::check_subresource(shared, &served.kind.plural, other)?;
            Err(Status::no_such_resource())
        }
    }
}

fn target(served: Served, path: &ResourcePath) -> Target {
    Target { served, namespace: path.namespace.clone(), name: path.name.clone().unwrap_or_default() }
}

fn encoder(
    shared: &Shared,
    call: &Call,
    served: &Served,
    requested: Requested,
) -> Result<ObjectEncoder, Status> {
    let kind = served.kind.clone();
    Ok(match negotiate(&call.parts.headers, requested)? {
        Negotiated::Objects(representation) => ObjectEncoder::new(kind, representation),
        Negotiated::Table => {
            let columns = match call.info.subresource.as_deref() {
                Some("scale") => tables::builtin_columns("autoscaling", "scales"),
                _ => kind.columns(),
            };
            let include = IncludeObject::parse(call.query.get("includeObject"));
            ObjectEncoder::table(kind, TableFormat::new(columns, include), &shared.config.clock)
        }
    })
}

async fn collection(shared: &Shared, served: &Served, path: &ResourcePath, call: &Call) -> HandlerResult {
    let encoder = encoder(shared, call, served, Requested::List)?;
    let mut options = list_options(&call.query, &served.kind)?;
    options.select.shard = call.query.shard(shared.config.sharded_lists)?;
    let page = list(shared, &call.cache, served, path.namespace.as_deref(), &options).await?;
    conversion::prepare(shared, &served.kind, &page.items).await?;
    Ok(stream(Body::list(page.body(encoder))))
}

fn open_watch(
    shared: &Arc<Shared>,
    closing: &watch::Receiver<bool>,
    served: Served,
    path: &ResourcePath,
    mut call: Call,
) -> HandlerResult {
    if accept::prefers_yaml(&call.parts.headers) {
        return Err(accept::not_streamable());
    }
    let streaming = shared.streaming_lists();
    if streaming == StreamingLists::ErrorEvent && has_initial_events_parameter(&call.query) {
        call.arrival.fault.get_or_insert(Fault::error(streaming_unsupported()));
    }
    let mut options = watch_options(&call.query, &served.kind, streaming)?;
    let encoder = match encoder(shared, &call, &served, Requested::Object) {
        Ok(encoder) => encoder,
        // The real server accepts a watch with the representation of a list, and closes it immediately.
        Err(_) if encoder(shared, &call, &served, Requested::List).is_ok() => {
            return Ok(stream(Body::bytes("")));
        }
        Err(status) => return Err(status),
    };
    options.select.shard = call.query.shard(shared.config.sharded_lists)?;
    if let Some(name) = &path.name {
        options.select.fields = options.select.fields.named(name);
    }
    let compressed = shared.config.gzip_watches && gzip::is_wanted(&call.parts.headers);
    let inputs = WatchInputs {
        shared: shared.clone(),
        cache: call.cache,
        served,
        namespace: path.namespace.clone(),
        encoder,
        arrival: call.arrival,
        closing: closing.clone(),
    };
    let (frames, open) = crate::read::watch::watch(inputs, options);
    let mut response = stream(Body::frames(frames, open, compressed));
    if compressed {
        gzip::set_headers(response.headers_mut());
    }
    Ok(response)
}

async fn get(shared: &Shared, target: &Target, call: &Call) -> HandlerResult {
    if call.query.flag("export") {
        return Err(Status::bad_request("the export parameter is no longer supported"));
    }
    let encoder = encoder(shared, call, &target.served, Requested::Object)?;
    let version = call.query.get("resourceVersion").unwrap_or("");
    let cached = !version.is_empty();
    if cached && version != "0" {
        let revision = parse_version(version).map_err(|cause| {
            if shared.config.watch_cache {
                Status::internal(cause)
            } else {
                Status::bad_request(format!("invalid resource version: {cause}"))
            }
        })?;
        call.cache.reach(shared, &target.served, revision).await?;
    }
    let entry = shared.read(|state| {
        let (store, table, cache) = (&state.store, target.served.table, call.cache.id());
        let now = Instant::now();
        let revision = if cached { store.position_of(table, cache, now) } else { store.revision() };
        store.table(table).get_at(&target.key(), revision).cloned()
    });
    let entry = entry.ok_or_else(|| target.not_found())?;
    conversion::prepare(shared, target.kind(), [&entry]).await?;
    Ok(json(200, &encoder.object(&entry)))
}

pub(crate) fn write_options(shared: &Shared, call: &Call, body: &Bytes) -> Result<WriteOptions, Status> {
    write::apply::options::check(call.info.verb, &call.query, &call.parts.headers)?;
    let options = WriteOptions::read(call.info.verb, &call.query, &call.parts.headers)?;
    let user = call.user.as_ref().map_err(Clone::clone)?;
    let check = escalation::check(&shared.access, user, &call.attributes);
    let caller = Some(Arc::new(caller(call, &Bytes::new(), options.dry_run)?));
    Ok(WriteOptions { warnings: call.warnings.clone(), check, caller, ..options.with_body(body) })
}

/// Describes the request for webhooks. `body` contains the options of a delete.
fn caller(call: &Call, body: &Bytes, dry_run: bool) -> Result<Caller, Status> {
    let user = call.user.as_ref().map_err(Clone::clone)?.clone();
    let mut options = decode::fields(body).unwrap_or_default();
    for key in ["fieldManager", "fieldValidation", "propagationPolicy"] {
        if let Some(value) = call.query.get(key) {
            options.insert(key.into(), value.into());
        }
    }
    if dry_run {
        options.insert("dryRun".into(), serde_json::json!(["All"]));
    }
    let is_collection = call.info.verb == Verb::DeleteCollection;
    Ok(Caller { user, dry_run, options: options.into(), is_collection, warnings: call.warnings.clone() })
}

async fn create(shared: &Shared, target: &Target, call: &Call, body: &Bytes) -> HandlerResult {
    let encoder = encoder(shared, call, &target.served, Requested::Object)?;
    let options = write_options(shared, call, body)?;
    decode::check_json(&call.parts.headers)?;
    let object = decode::object(body, target.kind())?;
    let written = write::create(shared, target, object, &options).await?;
    respond(shared, target, &written, &encoder).await
}

async fn respond(
    shared: &Shared,
    target: &Target,
    written: &Written,
    encoder: &ObjectEncoder,
) -> HandlerResult {
    conversion::prepare(shared, target.kind(), [written.entry()]).await?;
    Ok(json(written.code(), &written.bytes(encoder)))
}

async fn update(shared: &Shared, target: &Target, part: Part, call: &Call, body: &Bytes) -> HandlerResult {
    let encoder = encoder(shared, call, &target.served, Requested::Object)?;
    let mode = Mode { via: Via::Put, part, options: write_options(shared, call, body)? };
    decode::check_json(&call.parts.headers)?;
    let written = write::replace_by(shared, target, &mode, || decode::object(body, target.kind())).await?;
    respond(shared, target, &written, &encoder).await
}

async fn patch(shared: &Shared, target: &Target, part: Part, call: &Call, body: &Bytes) -> HandlerResult {
    let encoder = encoder(shared, call, &target.served, Requested::Object)?;
    let mode = Mode { via: Via::Patch, part, options: write_options(shared, call, body)? };
    let media_type = media_type(&call.parts.headers);
    let caller = Some((call.user.as_ref().map_err(Clone::clone)?, &call.attributes));
    let sent = PatchRequest { media_type, body, force: call.query.flag("force"), caller };
    let written = write::patch::patch(shared, target, mode, sent).await?;
    respond(shared, target, &written, &encoder).await
}

async fn delete(shared: &Shared, target: &Target, call: &Call, body: &Bytes) -> HandlerResult {
    let encoder = encoder(shared, call, &target.served, Requested::Object)?;
    let options = delete_options::read(&call.parts.headers, body, &call.query)?;
    let caller = caller(call, body, options.dry_run)?;
    let deleted = write::delete::delete(shared, target, &options, Some(&caller)).await?;
    if let Deleted::Kept(entry) | Deleted::Object(entry) = &deleted {
        conversion::prepare(shared, target.kind(), [entry]).await?;
    }
    Ok(json(deleted.code(&options), &deleted.bytes(target.kind(), &encoder)))
}

async fn delete_collection(
    shared: &Shared,
    served: &Served,
    path: &ResourcePath,
    call: &Call,
    body: &Bytes,
) -> HandlerResult {
    let encoder = encoder(shared, call, served, Requested::List)?;
    let mut selected = list_options(&call.query, &served.kind)?;
    selected.select.shard = call.query.shard(shared.config.sharded_lists)?;
    let options = delete_options::read(&call.parts.headers, body, &call.query)?;
    let page = list(shared, &call.cache, served, path.namespace.as_deref(), &selected).await?;
    let caller = caller(call, body, options.dry_run)?;
    conversion::prepare(shared, &served.kind, &page.items).await?;
    for entry in &page.items {
        let target = Target {
            served: served.clone(),
            namespace: path.namespace.clone(),
            name: entry.essentials.name.to_string(),
        };
        match write::delete::delete(shared, &target, &options, Some(&caller)).await {
            Err(status) if status.code() != 404 => return Err(status),
            _ => {}
        }
    }
    Ok(stream(Body::list(page.body(encoder))))
}
