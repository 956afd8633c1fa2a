//! A list: its pages, its end and its failures.

use std::time::Duration;

use kube_listwatch::{ErrorClass, ListAt};
use kube_object::ResourceVersion;

use super::{Step, back_off, ignore, stream, suspend, watch};
use crate::{
    AfterBackoff, Deadline, Input, ListPlan, Listing, Marker, Output, Position, ReflectorOptions,
    RelistCause, State,
};

/// A list of more pages has no end: its server gives new tokens for ever, whatever it is asked for.
const MOST_PAGES: u32 = 10_000;

/// Ask for a streaming list, or for the first page where the server has not given one.
pub(crate) fn begin(plan: ListPlan, cause: RelistCause, options: &ReflectorOptions) -> Step {
    if options.streaming_lists && !plan.unstreamed {
        return stream::begin(plan, cause);
    }
    let outputs = vec![
        Output::Count(cause),
        Output::List { request: plan.request(None, options), fresh: plan.fresh },
        Output::Arm(Deadline::List),
        Output::Mark(Marker::Begin { fresh: plan.fresh }),
    ];
    let listing = Listing { plan, version: None, token: None, earlier: None, pages: 0, complete: true };
    (State::Listing(listing), outputs)
}

pub(crate) fn step(listing: Listing, input: Input<'_>, options: &ReflectorOptions) -> Step {
    match input {
        Input::Items { complete } => {
            let complete = listing.complete && complete;
            (State::Listing(Listing { complete, ..listing }), vec![Output::Deliver])
        }
        // It has not reached the version, whatever it thinks.
        Input::PageEnd { version, .. } if listing.version.is_none() && listing.plan.is_missed_by(version) => {
            without_version(&listing.plan, RelistCause::TooLarge, None, options)
        }
        Input::PageEnd { version, next } => {
            // Every page shows the state of the first one's version.
            let version = listing.version.clone().unwrap_or_else(|| version.clone());
            match next {
                None => end(&listing.plan, version, listing.complete),
                // A server that does not understand the token would give this page, or these, for ever.
                Some(token) if listing.pages == MOST_PAGES || comes_again(&listing, token) => {
                    without_pages(listing.plan, RelistCause::Retry, options)
                }
                Some(token) => next_page(Listing { version: Some(version), ..listing }, token, options),
            }
        }
        Input::Failed(class, retry_after) => failed(listing, class, retry_after, options),
        Input::Fired(Deadline::List) => again_later(listing.plan, None),
        other => ignore(State::Listing(listing), other),
    }
}

fn comes_again(listing: &Listing, token: &str) -> bool {
    [&listing.token, &listing.earlier].into_iter().flatten().any(|before| before == token)
}

fn next_page(listing: Listing, token: &str, options: &ReflectorOptions) -> Step {
    let request = listing.plan.request(Some(token), options);
    let request = Output::List { request, fresh: listing.plan.fresh };
    let pages_anyway = listing.plan.pages_anyway || listing.plan.at == ListAt::Any;
    let plan = ListPlan { pages_anyway, ..listing.plan };
    let (pages, token) = (listing.pages.saturating_add(1), Some(token.to_owned()));
    let earlier = if pages.is_power_of_two() { token.clone() } else { listing.earlier };
    let listing = Listing { plan, token, earlier, pages, ..listing };
    (State::Listing(listing), vec![request, Output::Arm(Deadline::List)])
}

/// Paging led nowhere: ask for everything in one answer, once.
fn without_pages(plan: ListPlan, cause: RelistCause, options: &ReflectorOptions) -> Step {
    match plan.unpaged {
        false => instead(ListPlan { unpaged: true, ..plan }, cause, None, options),
        true => again_later(plan, None),
    }
}

/// Another list in the place of one that led nowhere. There are several reasons for one, and a server may give them one
/// after the other, so that only the first of them is asked for at once.
pub(crate) fn instead(
    plan: ListPlan,
    cause: RelistCause,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    match plan.at_once {
        false => begin(ListPlan { at_once: true, ..plan }, cause, options),
        true => {
            back_off(AfterBackoff::List { plan: ListPlan { at_once: false, ..plan }, cause }, retry_after)
        }
    }
}

/// A list with items that can't be identified shows what there is, but not what is gone.
fn end(plan: &ListPlan, version: ResourceVersion, complete: bool) -> Step {
    let mark = Output::Mark(Marker::End { version: version.clone(), complete });
    let (state, next) = match complete {
        true => watch::begin(Position::listed(version, plan)),
        // What was shown must not be followed by an older state, which "any" could be.
        false => again_later(ListPlan { at: ListPlan::not_older_than(&version), ..plan.clone() }, None),
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
        // The token has expired, not the version asked for: what is cached can be reused.
        ErrorClass::Expired if later_page && !plan.unpaged => {
            without_pages(plan, RelistCause::Expired, options)
        }
        ErrorClass::Expired => without_version(&plan, RelistCause::Expired, retry_after, options),
        ErrorClass::TooLarge => without_version(&plan, RelistCause::TooLarge, retry_after, options),
        // The token is not understood, or the version is none that this server gave.
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

/// The server can't show the state that was asked for: ask for the most recent one, at once where that is another
/// request.
pub(crate) fn without_version(
    plan: &ListPlan,
    cause: RelistCause,
    retry_after: Option<Duration>,
    options: &ReflectorOptions,
) -> Step {
    match plan.at {
        // Nothing newer can be asked for, but versions may be used again.
        ListAt::Consistent => again_later(plan.without_reuse(), retry_after),
        _ => instead(plan.without_reuse(), cause, retry_after, options),
    }
}

/// The same list after a delay.
pub(crate) fn again_later(plan: ListPlan, at_least: Option<Duration>) -> Step {
    back_off(AfterBackoff::List { plan: plan.after_backoff(), cause: RelistCause::Retry }, at_least)
}
