//! What a handler is told, held against what the cache has shown: properties 3, 8, 9, 12 and 18.

use super::{
    Verdict, holds,
    observation::{Cause, Event, Observation, Shown},
    past::{Handler, Owed, Past},
};

/// What the store says and what a handler is told, and the handler.
fn events<'a>(past: &'a Past, observation: &'a Observation<'_>) -> (&'a [Event], Option<&'a Handler>) {
    match observation {
        Observation::Cache(Shown { events: Some(events), .. }) => (events, None),
        Observation::Told { handler, event, .. } => (std::slice::from_ref(event), past.handlers.get(handler)),
        _ => (&[], None),
    }
}

/// Property 3: an update stays within an incarnation, and a delete is of the one that is known.
pub(super) fn identity(past: &Past, observation: &Observation<'_>) -> Verdict {
    let (events, handler) = events(past, observation);
    for event in events {
        let one = match (event, handler) {
            (Event::Updated { old, new }, _) => old.uid == new.uid,
            (Event::Deleted { last, .. }, Some(handler)) => {
                handler.knows.get(&last.key).is_none_or(|known| known.uid == last.uid)
            }
            _ => true,
        };
        holds(one, || format!("{event:?} mixes two incarnations"))?;
    }
    Ok(())
}

/// Property 8: each change of the cache is told, on its own before the mark; a drained handler knows what is cached.
pub(super) fn every_change(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Told { handler, event, .. } if !event.is_resync() => {
            past.handlers.get(handler).map_or(Ok(()), |handler| none_skipped(handler, event))
        }
        Observation::Drained { handler } => {
            past.handlers.get(handler).map_or(Ok(()), |handler| knows_all(past, handler))
        }
        _ => Ok(()),
    }
}

fn none_skipped(handler: &Handler, event: &Event) -> Verdict {
    let Some(at) = handler.owed_at(event) else {
        // Nobody has seen the changes of the cache.
        return holds(handler.owed.is_empty(), || {
            format!("{event:?} is told, the cache said {:?}", handler.owed)
        });
    };
    // A cache lists in no order, and so come initial adds.
    let is_initial = |event: &Event| matches!(event, Event::Added { initial: true, .. });
    let unordered = |owed: &&Owed| is_initial(&owed.event) && is_initial(event);
    let skipped = handler.owed.iter().take(at).find(|owed| !owed.mergeable && !unordered(owed));
    holds(skipped.is_none(), || format!("{event:?} is told before {skipped:?}"))?;
    let owed = handler.owed[at];
    holds(owed.mergeable || owed.event == *event, || {
        format!("{event:?} is told, the cache said {:?}", owed.event)
    })
}

fn knows_all(past: &Past, handler: &Handler) -> Verdict {
    let unmerged = handler.owed.iter().find(|owed| !owed.mergeable);
    holds(unmerged.is_none(), || format!("a drained handler was never told {unmerged:?}"))?;
    let (knows, cached) = (&handler.knows, &past.cache.objects);
    holds(knows == cached, || format!("a drained handler knows {knows:?}, cached is {cached:?}"))
}

/// Property 9: what a handler finds when it joins comes as initial adds, each once.
pub(super) fn late(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Told { handler, event, .. } => {
            let Some(handler) = past.handlers.get(handler) else { return Ok(()) };
            let twice = matches!(event, Event::Added { object, .. } if handler.knows.get(&object.key) == Some(object));
            holds(!twice, || format!("{event:?} is told twice"))
        }
        Observation::Drained { handler } => {
            let Some(handler) = past.handlers.get(handler) else { return Ok(()) };
            let missed = handler.initial.iter().flatten().find(|(_, initial)| !initial.gone);
            holds(missed.is_none(), || format!("a drained handler was never told of {missed:?}"))
        }
        _ => Ok(()),
    }
}

/// Property 12: an add is initial if the incarnation was there when the handler began to look, and only then.
pub(super) fn initial(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Observation::Told { handler, event: Event::Added { object, initial }, .. } = observation else {
        return Ok(());
    };
    let Some(handler) = past.handlers.get(handler) else { return Ok(()) };
    // Before there is a first list nothing is known of it.
    let Some(found) = &handler.initial else { return Ok(()) };
    let found = found.get(&object.key).filter(|found| found.uid == object.uid);
    let exact = match found {
        Some(found) => *initial || found.gone,
        None => !initial,
    };
    holds(exact, || format!("{object:?} is told as initial: {initial}, it was there: {found:?}"))
}

/// Property 18: a delete carries the state that the cache had last, or the server's last one.
pub(super) fn last_known(past: &Past, observation: &Observation<'_>) -> Verdict {
    let (events, handler) = events(past, observation);
    for event in events {
        let Event::Deleted { last, unknown } = event else { continue };
        let known = match handler {
            Some(handler) => handler.knows.get(&last.key),
            // The store may say more than one thing of a key at once; the first is about what is shown.
            None => past.cache.objects.get(&last.key).filter(|_| is_first(events, event)),
        };
        let Some(known) = known else { continue };
        let right = match (unknown, handler) {
            (true, None) => known == last,
            // The server's history is another one, in which the last state may have a lower version.
            (false, None) if is_fresh(observation) => known.uid == last.uid,
            _ => known.uid != last.uid || known.version <= last.version || past.cache.mark.epoch > 0,
        };
        // What the store has said was judged then.
        let said = handler.is_some_and(|handler| handler.owed.iter().any(|owed| owed.event == *event));
        let right = right || said;
        holds(right, || format!("{event:?} is said of {known:?}"))?;
    }
    Ok(())
}

fn is_fresh(observation: &Observation<'_>) -> bool {
    matches!(observation, Observation::Cache(Shown { cause: Cause::Relist { fresh: true }, .. }))
}

fn is_first(events: &[Event], event: &Event) -> bool {
    events.iter().find(|other| other.key() == event.key()).is_some_and(|first| std::ptr::eq(first, event))
}
