//! The query parameters of LIST and WATCH. This module validates them like the real server, and
//! converts them to options. Other modules read only the options.

use tokio::time::Duration;

use crate::faults::StreamingLists;
use crate::read::shard::ShardSelector;
use crate::read::token::Token;
use crate::schemas::kinds::kind::Kind;
use crate::status::{Cause, Status};
use crate::wire::query::{Query, parse_version};
use crate::wire::selector::{FieldSelector, LabelSelector};

impl Query {
    fn selection(&self, kind: &Kind) -> Result<Selection, Status> {
        let labels = LabelSelector::parse(self.text("labelSelector"))?;
        let fields = FieldSelector::parse(self.text("fieldSelector"), |name| kind.field_place(name))?;
        Ok(Selection { labels, fields, shard: None })
    }

    /// Returns the requested shard. A server that does not support shards ignores the parameter.
    pub(crate) fn shard(&self, supported: bool) -> Result<Option<ShardSelector>, Status> {
        let text = self.get("shardSelector").filter(|text| supported && !text.is_empty());
        text.map(ShardSelector::parse).transpose()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    pub shard: Option<ShardSelector>,
}

impl Selection {
    pub(crate) fn is_everything(&self) -> bool {
        self.is_all_of_shard() && self.shard.is_none()
    }

    pub(crate) fn is_all_of_shard(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    pub(crate) fn matches(&self, object: &crate::storage::entry::Essentials) -> bool {
        self.labels.matches(&object.labels)
            && self.fields.matches(&object.fields)
            && self.shard.as_ref().is_none_or(|shard| shard.matches(object))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListPosition {
    Latest,
    /// resourceVersion 0: any available revision.
    Any,
    NotOlderThan(u64),
    Exactly(u64),
    Continue(Token),
}

#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub at: ListPosition,
    pub limit: Option<usize>,
    pub select: Selection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchStart {
    /// Sends all events after this revision.
    After(u64),
    Everything,
    /// Sends a streaming list after the cache reaches this revision. A revision in the future is an
    /// error.
    Stream(u64),
    /// Sends a streaming list after the cache reaches the current revision.
    Latest,
    Now,
}

#[derive(Clone, Debug)]
pub(crate) struct WatchOptions {
    pub from: WatchStart,
    pub bookmarks: bool,
    pub timeout: Option<Duration>,
    pub select: Selection,
}

const MATCH: &str = "resourceVersionMatch";
const INITIAL: &str = "sendInitialEvents";
const CONTINUE: &str = "continue";
const CONTINUED: &str = "resourceVersionMatch is forbidden when continue is provided";

pub(crate) fn list_options(query: &Query, kind: &Kind) -> Result<ListOptions, Status> {
    let limit = query.number("limit")?.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    query.number("timeoutSeconds")?;
    let select = query.selection(kind)?;
    let causes = list_causes(query);
    if !causes.is_empty() {
        return Err(Status::invalid_options("ListOptions", causes));
    }
    let at = list_at(query, limit.is_some())?;
    Ok(ListOptions { at, limit, select })
}

fn list_causes(query: &Query) -> Vec<Cause> {
    let (version, matching) = (query.text("resourceVersion"), query.text(MATCH));
    let mut causes = Vec::new();
    if !matching.is_empty() {
        if version.is_empty() {
            let text = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            causes.push(Cause::forbidden(MATCH, text));
        }
        if !query.text(CONTINUE).is_empty() {
            causes.push(Cause::forbidden(MATCH, CONTINUED));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            causes.push(Cause::unsupported(MATCH, matching, &["Exact", "NotOlderThan", ""]));
        }
        if matching == "Exact" && version == "0" {
            let text = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden(MATCH, text));
        }
    }
    if query.optional_flag(INITIAL).is_some() {
        causes.push(Cause::forbidden(INITIAL, "sendInitialEvents is forbidden for list"));
    }
    causes
}

fn list_at(query: &Query, limited: bool) -> Result<ListPosition, Status> {
    let (version, token) = (query.text("resourceVersion"), query.text(CONTINUE));
    if !token.is_empty() {
        let token = Token::decode(token)?;
        if !matches!(version, "" | "0") {
            let text = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(text));
        }
        return Ok(ListPosition::Continue(token));
    }
    match version {
        "" => Ok(ListPosition::Latest),
        "0" => Ok(ListPosition::Any),
        _ => {
            let revision = parse_version(version)
                .map_err(|cause| Status::bad_request(format!("invalid resource version: {cause}")))?;
            Ok(match query.text(MATCH) {
                "Exact" => ListPosition::Exactly(revision),
                "" if limited => ListPosition::Exactly(revision),
                _ => ListPosition::NotOlderThan(revision),
            })
        }
    }
}

pub(crate) fn has_initial_events_parameter(query: &Query) -> bool {
    query.optional_flag(INITIAL).is_some()
}

/// Creates the rejection of a streaming list on a server that does not serve them.
pub(crate) fn streaming_unsupported() -> Status {
    let text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    Status::invalid_options("ListOptions", vec![Cause::forbidden(INITIAL, text)])
}

/// Parses the options of a watch. A server that ignores streaming lists skips their parameters.
pub(crate) fn watch_options(
    query: &Query,
    kind: &Kind,
    streaming: StreamingLists,
) -> Result<WatchOptions, Status> {
    if streaming == StreamingLists::Ignored {
        return watch_options(&query.without(&[INITIAL, MATCH, CONTINUE]), kind, StreamingLists::Served);
    }
    query.number("limit")?;
    let seconds = query.number("timeoutSeconds")?;
    let select = query.selection(kind)?;
    if streaming == StreamingLists::Refused && has_initial_events_parameter(query) {
        return Err(streaming_unsupported());
    }
    let causes = watch_causes(query, streaming);
    if !causes.is_empty() {
        return Err(Status::invalid_options("ListOptions", causes));
    }
    let timeout = seconds.filter(|n| *n != 0).map(|n| Duration::from_secs(n.try_into().unwrap_or(0)));
    Ok(WatchOptions {
        from: watch_from(query)?,
        bookmarks: query.flag("allowWatchBookmarks"),
        timeout,
        select,
    })
}

fn watch_causes(query: &Query, streaming: StreamingLists) -> Vec<Cause> {
    let matching = query.text(MATCH);
    let initial = query.optional_flag(INITIAL).is_some();
    let mut causes = Vec::new();
    if initial && matching != "NotOlderThan" {
        let text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(Cause::forbidden(MATCH, text));
    }
    if !initial && !matching.is_empty() {
        let text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        causes.push(Cause::forbidden(MATCH, text));
    }
    if !matches!(matching, "" | "NotOlderThan") {
        causes.push(Cause::unsupported(MATCH, matching, &["NotOlderThan"]));
    }
    // A server with streaming lists treats a watch without a version like a streaming list, and sets
    // the field.
    let implied =
        streaming != StreamingLists::Refused && !initial && matches!(query.text("resourceVersion"), "" | "0");
    if !query.text(CONTINUE).is_empty() && (implied || !matching.is_empty()) {
        causes.push(Cause::forbidden(MATCH, CONTINUED));
    }
    causes
}

fn watch_from(query: &Query) -> Result<WatchStart, Status> {
    let text = query.text("resourceVersion");
    let version = match text {
        "" => 0,
        text => parse_version(text).map_err(Status::internal)?,
    };
    Ok(match (query.optional_flag(INITIAL), version) {
        (Some(true), _) if text.is_empty() => WatchStart::Latest,
        (Some(true), version) => WatchStart::Stream(version),
        (Some(false), 0) => WatchStart::Now,
        (None, 0) => WatchStart::Everything,
        (_, version) => WatchStart::After(version),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind() -> Kind {
        crate::schemas::kinds::builtin::kinds().into_iter().find(|k| k.plural == "configmaps").unwrap()
    }

    fn position(query: &str) -> ListPosition {
        list_options(&Query::parse(query), &kind()).unwrap().at
    }

    fn rejection(query: &str) -> (u16, String) {
        let status = list_options(&Query::parse(query), &kind()).unwrap_err();
        (status.code(), status.message().to_owned())
    }

    #[test]
    fn version_is_exact_only_with_a_limit_or_match_parameter() {
        assert_eq!(position(""), ListPosition::Latest);
        assert_eq!(position("resourceVersion=0&limit=5"), ListPosition::Any);
        assert_eq!(position("resourceVersion=7"), ListPosition::NotOlderThan(7));
        assert_eq!(position("resourceVersion=7&limit=1"), ListPosition::Exactly(7));
        assert_eq!(
            position("resourceVersion=7&limit=1&resourceVersionMatch=NotOlderThan"),
            ListPosition::NotOlderThan(7)
        );
        assert_eq!(position("resourceVersion=7&resourceVersionMatch=Exact"), ListPosition::Exactly(7));
    }

    #[test]
    fn invalid_parameters_return_the_error_of_the_real_server() {
        assert_eq!(
            rejection("resourceVersionMatch=Bogus").1,
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is \
             forbidden unless resourceVersion is provided, resourceVersionMatch: Unsupported value: \"Bogus\": \
             supported values: \"Exact\", \"NotOlderThan\", \"\"]"
        );
        assert_eq!(rejection("resourceVersionMatch=Exact&resourceVersion=0").0, 422);
        assert_eq!(rejection("limit=abc"), (400, "strconv.ParseInt: parsing \"abc\": invalid syntax".into()));
        assert_eq!(
            rejection("resourceVersion=-1").1,
            "invalid resource version: resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": \
             invalid syntax"
        );
        let query = Query::parse("resourceVersion=abc");
        let status = watch_options(&query, &kind(), StreamingLists::Served).unwrap_err();
        assert_eq!((status.code(), status.reason()), (500, ""));
    }

    #[test]
    fn watch_parameters_select_the_start_position() {
        let options = |query: &str, mode| watch_options(&Query::parse(query), &kind(), mode);
        let from = |query: &str| options(query, StreamingLists::Served).unwrap().from;
        assert_eq!(from("resourceVersion=0"), WatchStart::Everything);
        assert_eq!(from("resourceVersion=9"), WatchStart::After(9));
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        assert_eq!(from(stream), WatchStart::Latest);
        assert_eq!(from(&format!("{stream}&resourceVersion=0")), WatchStart::Stream(0));
        assert_eq!(from("sendInitialEvents=false&resourceVersionMatch=NotOlderThan"), WatchStart::Now);
        assert_eq!(options(stream, StreamingLists::Ignored).unwrap().from, WatchStart::Everything);
        let off = options(stream, StreamingLists::Refused).unwrap_err();
        assert!(off.message().contains("unless the WatchList feature gate is enabled"));
    }
}
