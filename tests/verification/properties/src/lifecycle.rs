//! Lifecycle: properties 10, 11, 17 and 20.

use super::{
    judge::{Verdict, holds},
    observation::{Event, Object, Observation},
    past::{Handler, Past},
};

/// Property 10: a synced informer contains a list.
pub(super) fn informer_synced(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Observation::InformerSynced = observation else { return Ok(()) };
    holds(past.cache.listed, || "no list was applied".to_owned())
}

/// Property 11: a synced handler has returned from the add of each initial object that was not deleted
/// since.
pub(super) fn handler_synced(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Observation::HandlerSynced { handler } = observation else { return Ok(()) };
    let Some(handler) = past.handlers.get(handler).filter(|handler| !handler.left) else { return Ok(()) };
    holds(past.cache.synced, || "the informer is not synced yet".to_owned())?;
    let within = handler.running.filter(|event| matches!(event, Event::Added { initial: true, .. }));
    holds(within.is_none(), || format!("the call for {within:?} is running"))?;
    let waiting = initial_waiting(handler);
    holds(waiting.is_none(), || format!("{waiting:?} is queued"))?;
    let missing = handler.initial.iter().flatten().find(|(_, initial)| !initial.gone);
    holds(missing.is_none(), || format!("{missing:?} was not delivered"))
}

/// An initial add that waits and can't have been merged away.
fn initial_waiting(handler: &Handler) -> Option<Event> {
    let unmerged = handler.pending.iter().filter(|pending| !pending.mergeable).map(|pending| pending.event);
    unmerged.into_iter().find(|event| matches!(event, Event::Added { initial: true, .. }))
}

/// Property 17. Each decoded object is transformed once, before all readers.
pub(super) fn transform(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Transformed(object) => {
            let decoded = past.untransformed.contains(object);
            holds(decoded, || format!("{object:?} is transformed and was not decoded: again, or by a resync"))
        }
        Observation::Cache(shown) => shown.objects.iter().try_for_each(|object| is_transformed(past, object)),
        Observation::Called { event, .. } => {
            event.after().map_or(Ok(()), |object| is_transformed(past, &object))
        }
        _ => Ok(()),
    }
}

fn is_transformed(past: &Past, object: &Object) -> Verdict {
    holds(!past.untransformed.contains(object), || format!("{object:?} is seen before it is transformed"))
}

/// Property 20: after a stop no task runs, and after a removal no call follows.
pub(super) fn nothing_left(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Called { handler, event, .. } => {
            holds(!past.stopped, || format!("{event:?} is delivered after the stop"))?;
            let left = past.handlers.get(handler).is_some_and(|handler| handler.left);
            holds(!left, || format!("{event:?} is delivered to handler {handler}, which was removed"))
        }
        Observation::HandlerRemoved { handler } => {
            let running = past.handlers.get(handler).and_then(|handler| handler.running);
            holds(running.is_none(), || format!("handler {handler} was removed within {running:?}"))
        }
        Observation::Stopped { tasks, sockets, timers } => {
            let none = [tasks, sockets, timers].iter().all(|left| **left == 0);
            holds(none, || format!("{tasks} tasks, {sockets} sockets and {timers} timers are left"))
        }
        Observation::Cache(_) => holds(!past.stopped, || "the cache changes after the stop".to_owned()),
        _ => Ok(()),
    }
}
