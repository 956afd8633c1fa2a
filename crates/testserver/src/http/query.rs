//! The options of a LIST or WATCH: read from the query, checked like the real server, and turned into what is
//! meant, so that no later code looks at a parameter.

use tokio::time::Duration;

use crate::faults::StreamingLists;
use crate::http::{duration, escape};
use crate::kinds::kind::Kind;
use crate::read::selector::{FieldSelector, LabelSelector};
use crate::read::shard::ShardSelector;
use crate::read::token::Token;
use crate::status::{Cause, Status};

/// The parameters after the `?`; of a repeated one the first counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(pairs.filter_map(pair).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter that may be repeated.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or("")
    }

    /// As the real server reads booleans: present and neither `0` nor `false`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    fn optional_flag(&self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        Some(value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
        let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let why = if number { "value out of range" } else { "invalid syntax" };
        let bad = |_| Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: {why}"));
        value.parse().map(Some).map_err(bad)
    }

    /// How long the client wants to wait at most, where it says so.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, Status> {
        let text = self.text("timeout");
        let read = if text.is_empty() { Ok(None) } else { duration::parse(text) };
        read.map_err(|why| {
            Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
        })
    }

    fn without(&self, names: &[&str]) -> Self {
        Self(self.0.iter().filter(|(name, _)| !names.contains(&name.as_str())).cloned().collect())
    }

    fn selection(&self, kind: &Kind) -> Result<Selection, Status> {
        let labels = LabelSelector::parse(self.text("labelSelector"))?;
        let fields = FieldSelector::parse(self.text("fieldSelector"), |name| kind.field_place(name))?;
        Ok(Selection { labels, fields, shard: None })
    }

    /// The shard that is asked for, on a server that knows shards.
    pub(crate) fn shard(&self, known: bool) -> Result<Option<ShardSelector>, Status> {
        let text = self.get("shardSelector").filter(|text| known && !text.is_empty());
        text.map(ShardSelector::parse).transpose()
    }
}

/// One parameter; as in Go, what has a semicolon or a broken escape in it does not count.
fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let read = |text: &str| escape::decode(&text.replace('+', " "));
    if text.contains(';') { None } else { Some((read(name)?, read(value)?)) }
}

/// Which objects are wanted.
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

    /// Whether no object is left out but for its shard.
    pub(crate) fn is_all_of_shard(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    pub(crate) fn matches(&self, object: &crate::storage::entry::Essentials) -> bool {
        self.labels.matches(&object.labels)
            && self.fields.matches(&object.fields)
            && self.shard.as_ref().is_none_or(|shard| shard.matches(object))
    }
}

/// At which revision a list is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListPosition {
    Latest,
    /// Version 0: whatever is at hand.
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

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchStart {
    /// Everything after this revision.
    After(u64),
    /// The objects as they are, then everything after.
    Everything,
    /// The same, as a streaming list: not before this revision is reached, and too large is an error.
    Stream(u64),
    /// The same, not before the present revision is reached.
    Latest,
    /// Only what happens from now on.
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
                .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
            Ok(match query.text(MATCH) {
                "Exact" => ListPosition::Exactly(revision),
                "" if limited => ListPosition::Exactly(revision),
                _ => ListPosition::NotOlderThan(revision),
            })
        }
    }
}

/// A version as a number, or the complaint of Go's parser.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    parse_unsigned(text).map_err(|why| format!("resourceVersion: Invalid value: {text:?}: {why}"))
}

/// A number without a sign, or the complaint of Go's parser.
pub(crate) fn parse_unsigned(text: &str) -> Result<u64, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty();
    let why = if digits { "value out of range" } else { "invalid syntax" };
    text.parse().ok().filter(|_| digits).ok_or_else(|| format!("strconv.ParseUint: parsing {text:?}: {why}"))
}

/// Whether a watch asks for its initial state.
pub(crate) fn asks_for_streaming(query: &Query) -> bool {
    query.optional_flag(INITIAL).is_some()
}

/// What a server says to streaming lists that does not serve them.
pub(crate) fn no_streaming() -> Status {
    let text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    Status::invalid_options("ListOptions", vec![Cause::forbidden(INITIAL, text)])
}

/// The options of a watch, without those that an older server does not know.
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
    if streaming == StreamingLists::Refused && asks_for_streaming(query) {
        return Err(no_streaming());
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
    // A server of streaming lists takes a watch without a version for one of them, and so fills the field in.
    let filled_in =
        streaming != StreamingLists::Refused && !initial && matches!(query.text("resourceVersion"), "" | "0");
    if !query.text(CONTINUE).is_empty() && (filled_in || !matching.is_empty()) {
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
        crate::kinds::builtin::kinds().into_iter().find(|k| k.plural == "configmaps").unwrap()
    }

    fn at(query: &str) -> ListPosition {
        list_options(&Query::parse(query), &kind()).unwrap().at
    }

    fn refused(query: &str) -> (u16, String) {
        let status = list_options(&Query::parse(query), &kind()).unwrap_err();
        (status.code(), status.message().to_owned())
    }

    #[test]
    fn a_version_means_exactly_only_with_a_limit_or_when_asked() {
        assert_eq!(at(""), ListPosition::Latest);
        assert_eq!(at("resourceVersion=0&limit=5"), ListPosition::Any);
        assert_eq!(at("resourceVersion=7"), ListPosition::NotOlderThan(7));
        assert_eq!(at("resourceVersion=7&limit=1"), ListPosition::Exactly(7));
        assert_eq!(
            at("resourceVersion=7&limit=1&resourceVersionMatch=NotOlderThan"),
            ListPosition::NotOlderThan(7)
        );
        assert_eq!(at("resourceVersion=7&resourceVersionMatch=Exact"), ListPosition::Exactly(7));
    }

    #[test]
    fn impossible_combinations_are_refused_in_the_words_of_the_real_server() {
        assert_eq!(
            refused("resourceVersionMatch=Bogus").1,
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is \
             forbidden unless resourceVersion is provided, resourceVersionMatch: Unsupported value: \"Bogus\": \
             supported values: \"Exact\", \"NotOlderThan\", \"\"]"
        );
        assert_eq!(refused("resourceVersionMatch=Exact&resourceVersion=0").0, 422);
        assert_eq!(refused("limit=abc"), (400, "strconv.ParseInt: parsing \"abc\": invalid syntax".into()));
        assert_eq!(
            refused("resourceVersion=-1").1,
            "invalid resource version: resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": \
             invalid syntax"
        );
        let query = Query::parse("resourceVersion=abc");
        let status = watch_options(&query, &kind(), StreamingLists::Served).unwrap_err();
        assert_eq!((status.code(), status.reason()), (500, ""));
    }

    #[test]
    fn a_watch_starts_where_its_parameters_say() {
        let asked = |query: &str, how| watch_options(&Query::parse(query), &kind(), how);
        let from = |query: &str| asked(query, StreamingLists::Served).unwrap().from;
        assert_eq!(from("resourceVersion=0"), WatchStart::Everything);
        assert_eq!(from("resourceVersion=9"), WatchStart::After(9));
        let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        assert_eq!(from(stream), WatchStart::Latest);
        assert_eq!(from(&format!("{stream}&resourceVersion=0")), WatchStart::Stream(0));
        assert_eq!(from("sendInitialEvents=false&resourceVersionMatch=NotOlderThan"), WatchStart::Now);
        assert_eq!(asked(stream, StreamingLists::Ignored).unwrap().from, WatchStart::Everything);
        let off = asked(stream, StreamingLists::Refused).unwrap_err();
        assert!(off.message().contains("unless the WatchList feature gate is enabled"));
    }
}
