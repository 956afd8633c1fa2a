//! What a handler is told, held against what the cache has shown: properties 3, 8, 9, 12 and 18.

use super::{
    judge::{Verdict, holds},
    observation::{Event, Object, Observation, Shown},
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
            holds(!twice, || format!("{event:?} is told twice"))?;
            let found =
                |of: &Object| handler.initial.as_ref()?.get(&of.key).filter(|found| found.uid == of.uid);
            let missed = match event {
                Event::Updated { old: of, .. } | Event::Deleted { last: of, .. } => found(of),
                Event::Added { .. } => None,
            };
            holds(missed.is_none(), || format!("{event:?} is told, and that it was found was not"))
        }
        Observation::HandlerSynced { handler } | Observation::Drained { handler } => {
            let Some(handler) = past.handlers.get(handler).filter(|handler| !handler.left) else {
                return Ok(());
            };
            let missed = handler.initial.iter().flatten().find(|(_, initial)| !initial.gone);
            holds(missed.is_none(), || format!("a handler that has been told all was not told of {missed:?}"))
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

/// Property 18: a delete carries the server's last state of the object, or says that it does not know it and carries the
/// state that the cache had last.
pub(super) fn last_known(past: &Past, observation: &Observation<'_>) -> Verdict {
    let (events, handler) = events(past, observation);
    for event in events {
        let Event::Deleted { last, unknown } = event else { continue };
        let right = match handler {
            Some(handler) => is_told_as_said(past, handler, event),
            // The store may say more than one thing of a key at once; the first is about what is shown.
            None if !is_first(events, event) => true,
            None if *unknown => past.cache.objects.get(&last.key) == Some(last),
            None => is_servers_last(past, last),
        };
        holds(right, || format!("{event:?} is said of {:?}", past.cache.objects.get(&last.key)))?;
    }
    Ok(())
}

/// What the store has said was judged then. Where nobody has seen that, a delete is at least of nothing older than what
/// the handler knows.
fn is_told_as_said(past: &Past, handler: &Handler, event: &Event) -> bool {
    let (Event::Deleted { last, .. }, Some(known)) = (event, handler.knows.get(&event.key())) else {
        return true;
    };
    let of_key = |owed: &&Owed| owed.event.key() == last.key && matches!(owed.event, Event::Deleted { .. });
    let mut said = handler.owed.iter().filter(of_key).peekable();
    match said.peek() {
        Some(_) => said.any(|owed| owed.event == *event),
        None => known.uid != last.uid || known.version <= last.version || past.cache.mark.epoch > 0,
    }
}

/// The server has deleted it with this version; or its last state can't be decoded, and this is the one before.
fn is_servers_last(past: &Past, last: &Object) -> bool {
    let Some(life) = past.server.lives.get(&last.key) else { return true };
    let deleted = life.iter().any(|written| written.object.is_none() && written.version == last.version);
    let hidden = life.iter().any(|written| !written.decodable);
    deleted || (hidden && past.cache.objects.get(&last.key) == Some(last))
}

fn is_first(events: &[Event], event: &Event) -> bool {
    events.iter().find(|other| other.key() == event.key()).is_some_and(|first| std::ptr::eq(first, event))
}
