//! Transitions of a list.

use std::time::Duration;

use kube_listwatch::{ErrorClass, ListAt};
use kube_object::ResourceVersion;

use super::{Step, back_off, ignore, stream, suspend, watch};
use crate::{
    AfterBackoff, Deadline, Input, ListPlan, Listing, Marker, Output, Position, ReflectorOptions,
    RelistCause, State,
};

/// The maximum number of pages. A server with more pages probably returns new tokens indefinitely.
const MAX_PAGES: u32 = 10_000;

/// The maximum number of consecutive later pages without items. kube-apiserver returns no such pages.
const MAX_EMPTY_PAGES: u32 = 16;

/// Requests a streaming list, or the first page if streaming lists are disabled or failed.
pub(crate) fn begin(plan: ListPlan, cause: RelistCause, options: &ReflectorOptions) -> Step {
    if options.streaming_lists && !plan.limits.no_streaming {
        return stream::begin(plan, cause);
    }
    let outputs = vec![
        Output::Count(cause),
        Output::List { request: plan.request(None, options), fresh: plan.fresh },
        Output::Arm(Deadline::List),
        Output::Mark(Marker::Begin { fresh: plan.fresh }),
    ];
    let listing =
        Listing { plan, version: None, token: None, earlier: None, pages: 0, empty_pages: 0, complete: true };
    (State::Listing(listing), outputs)
}

pub(crate) fn step(listing: Listing, input: Input<'_>, options: &ReflectorOptions) -> Step {
    match input {
        Input::Items { complete } => {
            let complete = listing.complete && complete;
            (State::Listing(Listing { complete, empty_pages: 0, ..listing }), vec![Output::Deliver])
        }
        // The server has not reached the version.
        Input::PageEnd { version, .. } if listing.version.is_none() && listing.plan.is_missed_by(version) => {
            without_version(&listing.plan, RelistCause::TooLarge, None, options)
        }
        Input::PageEnd { version, next } => {
            // All pages have the version of the first page.
            let version = listing.version.clone().unwrap_or_else(|| version.clone());
            match next {
                None => end(&listing.plan, version, listing.complete),
                Some(token) if is_endless(&listing, token) => abandon_pages(listing, options),
                Some(token) => next_page(Listing { version: Some(version), ..listing }, token, options),
            }
        }
        Input::Failed(class, retry_after) => failed(listing, class, retry_after, options),
        Input::Fired(Deadline::List) => again_later(listing.plan, None),
        other => ignore(State::Listing(listing), other),
    }
}

/// Returns whether the pages probably do not end. A server that ignores the token returns the same pages
/// indefinitely.
fn is_endless(listing: &Listing, token: &str) -> bool {
    let is_repeated = [&listing.token, &listing.earlier].into_iter().flatten().any(|before| before == token);
    is_repeated || listing.pages >= MAX_PAGES || listing.empty_pages >= MAX_EMPTY_PAGES
}

fn abandon_pages(listing: Listing, options: &ReflectorOptions) -> Step {
    let report = Output::AbandonPages { pages: listing.pages.saturating_add(1) };
    let (state, outputs) = without_pages(listing.plan, RelistCause::Retry, options);
    (state, std::iter::once(report).chain(outputs).collect())
}

fn next_page(listing: Listing, token: &str, options: &ReflectorOptions) -> Step {
    let request = listing.plan.request(Some(token), options);
    let request = Output::List { request, fresh: listing.plan.fresh };
    let plan = match listing.plan.at {
        // A server with a watch cache returns any state in one page.
        ListAt::Any => listing.plan.without_watch_cache(),
        _ => listing.plan,
    };
    let (pages, token) = (listing.pages.saturating_add(1), Some(token.to_owned()));
    let earlier = if pages.is_power_of_two() { token.clone() } else { listing.earlier };
    let empty_pages = listing.empty_pages.saturating_add(1); // items reset the number
    let listing = Listing { plan, token, earlier, pages, empty_pages, ..listing };
    (State::Listing(listing), vec![request, Output::Arm(Deadline::List)])
}

/// After a failure of paging, requests the list in one response, once.
fn without_pages(plan: ListPlan, cause: RelistCause, options: &ReflectorOptions) -> Step {
    if plan.unpaged { again_later(plan, None) } else { instead(plan.without_pages(), cause, None, options) }
}

/// Replaces a failed list by another list. Only the first replacement is immediate, because a server can
/// reject each list.
pub(crate) fn instead(
    plan: ListPlan,
    cause: RelistCause,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    if plan.immediate {
        back_off(AfterBackoff::List { plan: ListPlan { immediate: false, ..plan }, cause }, retry_after)
    } else {
        begin(ListPlan { immediate: true, ..plan }, cause, options)
    }
}

/// Ends a list. A list with items without identity cannot prove deletions, so it is repeated.
fn end(plan: &ListPlan, version: ResourceVersion, complete: bool) -> Step {
    let mark = Output::Mark(Marker::End { version: version.clone(), complete });
    let (state, next) = if complete {
        watch::begin(Position::listed(version, plan))
    } else {
        // The next list must not be older than this list, and `ListAt::Any` can be older.
        again_later(ListPlan { at: ListPlan::not_older_than(&version), ..plan.clone() }, None)
    };
    (state, [vec![mark], next].concat())
}

fn failed(
    listing: Listing,
    class: ErrorClass,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    let Listing { plan, version, .. } = listing;
    let later_page = version.is_some();
    match class {
        // The token expired, and not the version. Cached objects can be reused.
        ErrorClass::Expired if later_page && !plan.unpaged => {
            without_pages(plan, RelistCause::Expired, options)
        }
        ErrorClass::Expired => without_version(&plan, RelistCause::Expired, retry_after, options),
        ErrorClass::TooLarge => without_version(&plan, RelistCause::TooLarge, retry_after, options),
        // The server does not accept the token, or did not create the version.
        ErrorClass::Unsupported if later_page && !plan.unpaged => {
            without_pages(plan, RelistCause::Retry, options)
        }
        ErrorClass::Unsupported if matches!(plan.at, ListAt::NotOlderThan(_)) => {
            again_later(plan.without_reuse(), retry_after)
        }
        ErrorClass::NotFound => suspend(plan.after_not_found(), RelistCause::Retry, retry_after, options),
        _ => again_later(plan, retry_after),
    }
}

/// The server cannot return the requested state. Requests the most recent state, immediately if this is
/// another request.
pub(crate) fn without_version(
    plan: &ListPlan,
    cause: RelistCause,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    match plan.at {
        // There is no newer state to request, but the server can have reused versions.
        ListAt::Consistent => again_later(plan.without_reuse(), retry_after),
        _ => instead(plan.without_reuse(), cause, retry_after, options),
    }
}

/// Repeats the list after a backoff.
pub(crate) fn again_later(plan: ListPlan, at_least: Option<Duration>) -> Step {
    back_off(AfterBackoff::List { plan: plan.after_backoff(), cause: RelistCause::Retry }, at_least)
}
