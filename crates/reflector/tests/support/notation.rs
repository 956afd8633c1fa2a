//! A text form of states, inputs and outputs, for scripts and for the table in docs/reflector.md.

use std::time::Duration;

use kube_listwatch::{ErrorClass, ListAt};
use kube_object::ResourceVersion;
use kube_reflector::{
    AfterBackoff, Deadline, EventKind, Input, ListPlan, Marker, Output, Position, RelistCause, State,
    WatchEnd,
};

/// A parsed input. Owns the data that an [`Input`] borrows.
pub(crate) struct ParsedInput {
    words: Vec<String>,
    version: ResourceVersion,
}

impl ParsedInput {
    /// Parses an input. `-` is an empty version.
    pub(crate) fn parse(text: &str) -> Self {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let version = words.get(1).map_or("", String::as_str).trim_start_matches('-');
        Self { version: ResourceVersion::new(version), words }
    }

    pub(crate) fn input(&self) -> Input<'_> {
        let word = |at: usize| self.words.get(at).map_or("", String::as_str);
        let event = |kind| Input::Event { kind, version: &self.version };
        match word(0) {
            "start" => Input::Start,
            "resume" => Input::Resume(&self.version),
            "items" => Input::Items { complete: word(1).is_empty() },
            "page" => Input::PageEnd { version: &self.version, next: word(2).strip_prefix("next=") },
            "added" => event(EventKind::Added),
            "changed" => event(EventKind::Changed),
            "bookmark" => event(EventKind::Bookmark),
            "initial-end" => event(EventKind::InitialEnd),
            "end" => Input::WatchEnded(end(word(1))),
            "fail" => Input::Failed(class(word(1)), retry_after(word(2))),
            "fired" => Input::Fired(deadline(word(1))),
            "opened" => Input::Opened,
            "server" => Input::ServerVersion(&self.version),
            "relist" => Input::Relist,
            other => panic!("invalid input {other:?}"),
        }
    }
}

fn end(word: &str) -> WatchEnd {
    match word {
        "early" => WatchEnd::Early,
        "short" => WatchEnd::Short,
        "full" => WatchEnd::Full,
        other => panic!("invalid end of a watch {other:?}"),
    }
}

fn class(word: &str) -> ErrorClass {
    match word {
        "expired" => ErrorClass::Expired,
        "too-large" => ErrorClass::TooLarge,
        "unsupported" => ErrorClass::Unsupported,
        "overloaded" => ErrorClass::Overloaded,
        "refused" => ErrorClass::Refused,
        "unauthorized" => ErrorClass::Unauthorized,
        "forbidden" => ErrorClass::Forbidden,
        "not-found" => ErrorClass::NotFound,
        "broken" => ErrorClass::Broken,
        other => panic!("invalid error class {other:?}"),
    }
}

fn retry_after(word: &str) -> Option<Duration> {
    let seconds = word.strip_prefix("retry-after=")?;
    Some(Duration::from_secs(seconds.parse().unwrap()))
}

fn deadline(word: &str) -> Deadline {
    match word {
        "list" => Deadline::List,
        "initial-events" => Deadline::InitialEvents,
        "watch" => Deadline::Watch,
        "bookmark" => Deadline::Bookmark,
        "backoff" => Deadline::Backoff,
        other => panic!("invalid deadline {other:?}"),
    }
}

/// Returns outputs as text, or `none`.
pub(crate) fn outputs(outputs: &[Output]) -> String {
    match outputs {
        [] => "none".to_owned(),
        outputs => outputs.iter().map(output).collect::<Vec<_>>().join("; "),
    }
}

fn output(output: &Output) -> String {
    match output {
        Output::List { request, fresh } => {
            let limit = request.limit.map(|limit| format!("limit={limit}"));
            words(&["list", &at(&request.at), limit.as_deref().unwrap_or(""), flag(*fresh, "fresh")])
        }
        Output::Stream { not_older_than, fresh } => {
            let at = not_older_than.as_ref().map(|version| format!(">={version}"));
            words(&["stream", at.as_deref().unwrap_or("consistent"), flag(*fresh, "fresh")])
        }
        Output::Watch(version) => format!("watch {}", shown(version)),
        Output::CheckVersion => "check version".to_owned(),
        Output::BackOff(None) => "back off".to_owned(),
        Output::BackOff(Some(delay)) => format!("back off {delay:?}"),
        Output::Arm(deadline) => format!("arm {}", deadline_name(*deadline)),
        Output::Disarm(deadline) => format!("disarm {}", deadline_name(*deadline)),
        Output::Deliver => "deliver".to_owned(),
        Output::Discard => "discard".to_owned(),
        Output::Mark(Marker::Clear) => "clear".to_owned(),
        Output::Mark(Marker::Begin { fresh }) => words(&["begin", flag(*fresh, "fresh")]),
        Output::Mark(Marker::End { version, complete }) => {
            words(&["end", &shown(version), flag(!complete, "incomplete")])
        }
        Output::Count(cause) => format!("count {}", self::cause(*cause)),
        Output::AbandonPages { .. } => "abandon pages".to_owned(),
    }
}

pub(crate) fn state(state: &State) -> String {
    match state {
        State::Idle => "idle".to_owned(),
        State::Listing(listing) => {
            let version = listing.version.as_ref().map(|version| format!("at {}", shown(version)));
            let token = listing.token.as_ref().map(|token| format!("page {token}"));
            let facts = [
                version.as_deref().unwrap_or(""),
                token.as_deref().unwrap_or(""),
                flag(listing.empty_pages > 0, "empty"),
                flag(!listing.complete, "incomplete"),
            ];
            words(&["listing", &plan(&listing.plan), &brackets(&facts)])
        }
        State::Streaming(streaming) => {
            let facts = [flag(streaming.opened, "opened"), flag(streaming.relist, "relist requested")];
            words(&["streaming", &plan(&streaming.plan), &brackets(&facts)])
        }
        State::Watching(watching) => {
            let facts = [
                flag(!watching.opened, "opening"),
                flag(watching.delivered, "delivered"),
                flag(watching.bookmarked, "bookmarked"),
            ];
            words(&["watching", &position(&watching.position, &facts)])
        }
        State::Waiting(waiting) => {
            let waits = if waiting.suspended { "suspended, then" } else { "waiting, then" };
            words(&[waits, &then(&waiting.then)])
        }
    }
}

fn then(then: &AfterBackoff) -> String {
    match then {
        AfterBackoff::List { plan: list, cause: why } => {
            words(&["list", &plan(list), &brackets(&[&cause(*why)])])
        }
        AfterBackoff::Watch(from) => words(&["watch", &position(from, &[])]),
    }
}

fn plan(plan: &ListPlan) -> String {
    let flags = [
        flag(plan.fresh, "fresh"),
        flag(plan.unpaged, "unpaged"),
        flag(plan.limits.no_watch_cache, "no-watch-cache"),
        flag(plan.limits.no_streaming, "no-streaming"),
        flag(plan.immediate, "immediate"),
    ];
    words(&[&at(&plan.at), &words(&flags)])
}

fn position(position: &Position, more: &[&str]) -> String {
    let stall_weight = (position.stall_weight > 0).then(|| format!("stalled {}", position.stall_weight));
    let mut facts = vec![
        flag(position.resumed, "resumed"),
        flag(position.moved, "moved"),
        flag(position.unstable, "unstable"),
        flag(position.check_version, "check version"),
        flag(position.disordered, "out of order"),
        stall_weight.as_deref().unwrap_or(""),
        flag(position.limits.no_watch_cache, "no-watch-cache"),
        flag(position.limits.no_streaming, "no-streaming"),
    ];
    facts.extend(more);
    words(&[&shown(&position.version), &brackets(&facts)])
}

fn at(at: &ListAt) -> String {
    match at {
        ListAt::Consistent => "consistent".to_owned(),
        ListAt::Any => "any".to_owned(),
        ListAt::NotOlderThan(version) => format!(">={version}"),
        ListAt::Exactly(version) => format!("={version}"),
        ListAt::Continue(token) => format!("continue={token}"),
    }
}

fn deadline_name(deadline: Deadline) -> String {
    match deadline {
        Deadline::InitialEvents => "initial-events".to_owned(),
        other => lower(&other),
    }
}

fn cause(cause: RelistCause) -> String {
    match cause {
        RelistCause::TooLarge => "too-large".to_owned(),
        RelistCause::NotFound => "not-found".to_owned(),
        other => lower(&other),
    }
}

fn shown(version: &ResourceVersion) -> String {
    if version.is_empty() { "-".to_owned() } else { version.to_string() }
}

fn lower(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

fn flag(is_set: bool, name: &str) -> &str {
    if is_set { name } else { "" }
}

fn words(words: &[&str]) -> String {
    words.iter().copied().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn brackets(facts: &[&str]) -> String {
    let facts: Vec<_> = facts.iter().copied().filter(|fact| !fact.is_empty()).collect();
    if facts.is_empty() { String::new() } else { format!("({})", facts.join(", ")) }
}
