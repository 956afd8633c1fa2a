//! A handler's calls one by one: properties 5, 6, 7 and 15.

use super::{
    judge::{Verdict, holds},
    observation::{CacheState, CacheView, Cause, Event, HandlerId, Observation},
    past::{Handler, Past},
};

/// Returns the handler, its event, and its view of the cache.
fn call<'a>(
    past: &'a Past,
    observation: &'a Observation<'_>,
) -> Option<(&'a Handler, &'a Event, Option<&'a CacheView>)> {
    let Observation::Called { handler, event, view } = observation else { return None };
    Some((past.handlers.get(handler)?, event, view.as_ref()))
}

/// Property 5: one call at a time, and for each object an add, updates in order and a delete, over and over.
pub(super) fn sequential(past: &Past, observation: &Observation<'_>) -> Verdict {
    if let Observation::Returned { handler } = observation {
        return holds(is_running(past, *handler), || format!("handler {handler} returns and was not called"));
    }
    if let Observation::Drained { handler } = observation {
        return holds(!is_running(past, *handler), || format!("handler {handler} is drained within a call"));
    }
    let Some((handler, event, _)) = call(past, observation) else { return Ok(()) };
    holds(handler.running.is_none(), || {
        format!("{event:?} is delivered during the call for {:?}", handler.running)
    })?;
    let knows = handler.knows.get(&event.key());
    let follows = match event {
        Event::Added { .. } => knows.is_none(),
        Event::Updated { old, .. } => knows == Some(old),
        Event::Deleted { .. } => knows.is_some(),
    };
    holds(follows, || format!("{event:?} is delivered to a handler with the state {knows:?}"))
}

fn is_running(past: &Past, handler: HandlerId) -> bool {
    past.handlers.get(&handler).is_some_and(|handler| handler.running.is_some())
}

/// Property 6: during a call, the cache and the indexes contain the state of the event or a later
/// state.
pub(super) fn after_the_store(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Some((handler, event, Some(view))) = call(past, observation) else { return Ok(()) };
    holds(view.cached == view.indexed, || {
        format!("{:?} is cached, an index has {:?}", view.cached, view.indexed)
    })?;
    // An observer of all changes of the cache has the exact expected state.
    if let Some(newest) = handler.pending.iter().rev().find(|pending| pending.event.key() == event.key()) {
        let shown = view.cached == newest.event.after();
        return holds(shown, || {
            format!("{event:?} is delivered while {:?} is cached after {newest:?}", view.cached)
        });
    }
    let Some(cached) = view.cached.filter(|_| view.mark.epoch == 0) else { return Ok(()) };
    match event {
        Event::Added { object: new, .. } | Event::Updated { new, .. } => {
            let older = cached.uid == new.uid && cached.version < new.version;
            holds(!older, || format!("{event:?} is delivered while {cached:?} is cached"))
        }
        Event::Deleted { last, .. } => {
            holds(cached != *last, || format!("{event:?} is delivered while the object is cached"))
        }
    }
}

/// Property 7: deletes precede adds, and no call of a relist starts before the complete relist is
/// visible.
pub(super) fn after_the_relist(past: &Past, observation: &Observation<'_>) -> Verdict {
    if let Observation::Cache(CacheState { events: Some(events), cause: Cause::Relist { .. }, .. }) =
        observation
    {
        let mut changes = events.iter().skip_while(|event| matches!(event, Event::Deleted { .. }));
        let late = changes.find(|event| matches!(event, Event::Deleted { .. }));
        return holds(late.is_none(), || format!("a relist delivers {late:?} after a change: {events:?}"));
    }
    let Some((handler, event, Some(view))) = call(past, observation) else { return Ok(()) };
    holds(view.synced, || format!("{event:?} is delivered before the informer is synced"))?;
    let pending = handler.pending_at(event).map(|at| handler.pending[at]);
    let shown = pending.is_none_or(|pending| view.mark >= pending.made_at);
    holds(shown, || {
        format!(
            "{event:?} is delivered at {:?}, but was created at {:?}",
            view.mark,
            pending.map(|pending| pending.made_at)
        )
    })
}

/// Property 15: a resync delivers the last delivered state. The handler has no newer state, and a
/// resync was requested.
pub(super) fn resync(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Some((handler, event, _)) = call(past, observation).filter(|(_, event, _)| event.is_resync()) else {
        return Ok(());
    };
    let knows = handler.knows.get(&event.key()).copied();
    holds(knows == event.after(), || {
        format!("a resync delivers {event:?} to a handler with the state {knows:?}")
    })?;
    // Changes can lead back to the last delivered state. If the mark is 0, resyncs are not observed.
    let asked = handler.resynced || handler.mark == 0 || handler.pending_at(event).is_some();
    holds(asked || !handler.observed, || format!("{event:?} is delivered as a resync without a request"))
}
