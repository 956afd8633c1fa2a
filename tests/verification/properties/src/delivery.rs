//! Compares the events of handlers with the content of the cache: properties 3, 8, 9, 12 and 18.

use kube_object::Removal;

use super::{
    judge::{Verdict, holds},
    observation::{CacheState, Event, Object, Observation},
    past::{Handler, Past, PendingEvent},
};

/// Returns the changes of the store or the event of a handler, and the handler.
fn events<'a>(past: &'a Past, observation: &'a Observation<'_>) -> (&'a [Event], Option<&'a Handler>) {
    match observation {
        Observation::Cache(CacheState { events: Some(events), .. }) => (events, None),
        Observation::Called { handler, event, .. } => {
            (std::slice::from_ref(event), past.handlers.get(handler))
        }
        _ => (&[], None),
    }
}

/// Property 3: both states of an update have the same uid, and a delete has the uid of the cached object.
pub(super) fn identity(past: &Past, observation: &Observation<'_>) -> Verdict {
    let (events, handler) = events(past, observation);
    for event in events {
        let one = match (event, handler) {
            (Event::Updated { old, new }, _) => old.uid == new.uid,
            (Event::Deleted { last, .. }, None) if is_first(events, event) => {
                past.cache.objects.get(&last.key).is_none_or(|cached| cached.uid == last.uid)
            }
            (Event::Deleted { last, .. }, Some(handler)) => {
                handler.knows.get(&last.key).is_none_or(|known| known.uid == last.uid)
            }
            _ => true,
        };
        holds(one, || format!("{event:?} mixes two incarnations"))?;
    }
    Ok(())
}

/// Property 8. Each change of the cache is delivered, separately below the mark. A drained handler has
/// the cached state.
pub(super) fn every_change(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Called { handler, event, .. } if !event.is_resync() => {
            past.handlers.get(handler).map_or(Ok(()), |handler| none_skipped(handler, event))
        }
        Observation::Drained { handler } => {
            past.handlers.get(handler).map_or(Ok(()), |handler| knows_all(past, handler))
        }
        _ => Ok(()),
    }
}

fn none_skipped(handler: &Handler, event: &Event) -> Verdict {
    let Some(at) = handler.pending_at(event) else {
        // The changes of the cache were not observed.
        return holds(handler.pending.is_empty(), || {
            format!("{event:?} is delivered, but the cache reported {:?}", handler.pending)
        });
    };
    // A cache iterates in no order, so initial adds have no order.
    let is_initial = |event: &Event| matches!(event, Event::Added { initial: true, .. });
    let unordered = |pending: &&PendingEvent| is_initial(&pending.event) && is_initial(event);
    let skipped = handler.pending.iter().take(at).find(|pending| !pending.mergeable && !unordered(pending));
    holds(skipped.is_none(), || format!("{event:?} is delivered before {skipped:?}"))?;
    let pending = handler.pending[at];
    holds(pending.mergeable || pending.event == *event, || {
        format!("{event:?} is delivered, but the cache reported {:?}", pending.event)
    })
}

fn knows_all(past: &Past, handler: &Handler) -> Verdict {
    let unmerged = handler.pending.iter().find(|pending| !pending.mergeable);
    holds(unmerged.is_none(), || format!("a drained handler never received {unmerged:?}"))?;
    let (knows, cached) = (&handler.knows, &past.cache.objects);
    holds(knows == cached, || {
        format!("a drained handler has the state {knows:?}, but the cached state is {cached:?}")
    })
}

/// Property 9: the objects that are cached when a handler is added are delivered as initial adds, each
/// once.
pub(super) fn late(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Called { handler, event, .. } => {
            let Some(handler) = past.handlers.get(handler) else { return Ok(()) };
            let twice = matches!(event, Event::Added { object, .. } if handler.knows.get(&object.key) == Some(object));
            holds(!twice, || format!("{event:?} is delivered twice"))?;
            let found =
                |of: &Object| handler.initial.as_ref()?.get(&of.key).filter(|found| found.uid == of.uid);
            let missed = match event {
                Event::Updated { old: of, .. } | Event::Deleted { last: of, .. } => found(of),
                Event::Added { .. } => None,
            };
            holds(missed.is_none(), || format!("{event:?} is delivered without an initial add"))
        }
        Observation::HandlerSynced { handler } | Observation::Drained { handler } => {
            let Some(handler) = past.handlers.get(handler).filter(|handler| !handler.left) else {
                return Ok(());
            };
            let missed = handler.initial.iter().flatten().find(|(_, initial)| !initial.gone);
            holds(missed.is_none(), || {
                format!("a handler that received all events did not receive {missed:?}")
            })
        }
        _ => Ok(()),
    }
}

/// Property 12: an add is initial if and only if the object with this uid was cached when the handler
/// was added.
pub(super) fn initial(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Observation::Called { handler, event: Event::Added { object, initial }, .. } = observation else {
        return Ok(());
    };
    let Some(handler) = past.handlers.get(handler) else { return Ok(()) };
    // Before the first list, the initial objects are unknown.
    let Some(found) = &handler.initial else { return Ok(()) };
    let found = found.get(&object.key).filter(|found| found.uid == object.uid);
    let exact = match found {
        Some(found) => *initial || found.gone,
        None => !initial,
    };
    holds(exact, || format!("{object:?} is delivered with initial {initial}, but was cached: {found:?}"))
}

/// Property 18: a delete contains the final state of the server, or reports that the final state is
/// unknown and contains the last cached state.
pub(super) fn last_known(past: &Past, observation: &Observation<'_>) -> Verdict {
    let (events, handler) = events(past, observation);
    for event in events {
        let Event::Deleted { last, removal } = event else { continue };
        let right = match handler {
            Some(handler) => is_reported_deletion(past, handler, event),
            // The store may report several changes of a key at a time. The first change starts from the
            // cached state.
            None if !is_first(events, event) => true,
            None if *removal != Removal::Deleted => past.cache.objects.get(&last.key) == Some(last),
            None => is_servers_last(past, last),
        };
        holds(right, || format!("{event:?} is reported after {:?}", past.cache.objects.get(&last.key)))?;
    }
    Ok(())
}

/// Checks a delivered event against the changes that the store reported. If these were not observed,
/// checks only that a delete is not older than the last delivered state.
fn is_reported_deletion(past: &Past, handler: &Handler, event: &Event) -> bool {
    let (Event::Deleted { last, .. }, Some(known)) = (event, handler.knows.get(&event.key())) else {
        return true;
    };
    let of_key = |pending: &&PendingEvent| {
        pending.event.key() == last.key && matches!(pending.event, Event::Deleted { .. })
    };
    let mut reported = handler.pending.iter().filter(of_key).peekable();
    match reported.peek() {
        Some(_) => reported.any(|pending| pending.event == *event),
        None => known.uid != last.uid || known.version <= last.version || past.cache.mark.epoch > 0,
    }
}

/// Returns whether the server deleted the object with this version. If the last state is undecodable, the
/// cached state is also correct.
fn is_servers_last(past: &Past, last: &Object) -> bool {
    let Some(life) = past.server.lives.get(&last.key) else { return true };
    let deleted = life.iter().any(|written| written.object.is_none() && written.version == last.version);
    let hidden = life.iter().any(|written| !written.decodable);
    deleted || (hidden && past.cache.objects.get(&last.key) == Some(last))
}

fn is_first(events: &[Event], event: &Event) -> bool {
    events.iter().find(|other| other.key() == event.key()).is_some_and(|first| std::ptr::eq(first, event))
}
