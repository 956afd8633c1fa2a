//! A handler's calls one by one: properties 5, 6, 7 and 15.

use super::{
    judge::{Verdict, holds},
    observation::{Cause, Event, HandlerId, Observation, Shown, View},
    past::{Handler, Past},
};

/// The handler, what it is told, and what it sees.
fn told<'a>(
    past: &'a Past,
    observation: &'a Observation<'_>,
) -> Option<(&'a Handler, &'a Event, Option<&'a View>)> {
    let Observation::Told { handler, event, view } = observation else { return None };
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
    let Some((handler, event, _)) = told(past, observation) else { return Ok(()) };
    holds(handler.running.is_none(), || format!("{event:?} is told within {:?}", handler.running))?;
    let knows = handler.knows.get(&event.key());
    let follows = match event {
        Event::Added { .. } => knows.is_none(),
        Event::Updated { old, .. } => knows == Some(old),
        Event::Deleted { .. } => knows.is_some(),
    };
    holds(follows, || format!("{event:?} is told to a handler that knows {knows:?}"))
}

fn is_running(past: &Past, handler: HandlerId) -> bool {
    past.handlers.get(&handler).is_some_and(|handler| handler.running.is_some())
}

/// Property 6: during a call the cache shows what the handler is told, or something later, and so do indexes.
pub(super) fn after_the_store(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Some((handler, event, Some(view))) = told(past, observation) else { return Ok(()) };
    holds(view.cached == view.indexed, || {
        format!("{:?} is cached, an index has {:?}", view.cached, view.indexed)
    })?;
    // Whoever has seen all changes of the cache knows what must be there.
    if let Some(newest) = handler.owed.iter().rev().find(|owed| owed.event.key() == event.key()) {
        let shown = view.cached == newest.event.after();
        return holds(shown, || {
            format!("{event:?} is told while {:?} is cached after {newest:?}", view.cached)
        });
    }
    let Some(cached) = view.cached.filter(|_| view.mark.epoch == 0) else { return Ok(()) };
    match event {
        Event::Added { object: new, .. } | Event::Updated { new, .. } => {
            let older = cached.uid == new.uid && cached.version < new.version;
            holds(!older, || format!("{event:?} is told while {cached:?} is cached"))
        }
        Event::Deleted { last, .. } => {
            holds(cached != *last, || format!("{event:?} is told while it is cached"))
        }
    }
}

/// Property 7: deletes come before adds, and no call of a relist comes before all of it is shown.
pub(super) fn after_the_relist(past: &Past, observation: &Observation<'_>) -> Verdict {
    if let Observation::Cache(Shown { events: Some(events), cause: Cause::Relist { .. }, .. }) = observation {
        let mut changes = events.iter().skip_while(|event| matches!(event, Event::Deleted { .. }));
        let late = changes.find(|event| matches!(event, Event::Deleted { .. }));
        return holds(late.is_none(), || format!("a relist says {late:?} after a change: {events:?}"));
    }
    let Some((handler, event, Some(view))) = told(past, observation) else { return Ok(()) };
    holds(view.synced, || format!("{event:?} is told before the informer is synced"))?;
    let owed = handler.owed_at(event).map(|at| handler.owed[at]);
    let shown = owed.is_none_or(|owed| view.mark >= owed.made_at);
    holds(shown, || {
        format!("{event:?} is told at {:?}, it was made at {:?}", view.mark, owed.map(|owed| owed.made_at))
    })
}

/// Property 15: what a resync shows is what the handler knows; it knows nothing newer, and a resync was asked for.
pub(super) fn resync(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Some((handler, event, _)) = told(past, observation).filter(|(_, event, _)| event.is_resync()) else {
        return Ok(());
    };
    let knows = handler.knows.get(&event.key()).copied();
    holds(knows == event.after(), || format!("a resync shows {event:?} to a handler that knows {knows:?}"))?;
    // Changes may lead back to what is known. Past its mark from the beginning nobody says when it is resynced.
    let asked = handler.resynced || handler.mark == 0 || handler.owed_at(event).is_some();
    holds(asked || !handler.observed, || format!("{event:?} is shown again, and nobody has asked for it"))
}
