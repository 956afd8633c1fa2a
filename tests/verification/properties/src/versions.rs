//! Versions of the cache and of the reflector: properties 13 and 14.

use super::{
    judge::{Verdict, holds},
    observation::{Cause, Mark, Observation},
    past::Past,
};

/// Property 13: versions of an epoch never decrease, and only a relist without reuse starts an epoch.
pub(super) fn epochs(past: &Past, observation: &Observation<'_>) -> Verdict {
    match observation {
        Observation::Cache(shown) => follows(past.cache.mark, shown.mark, shown.cause, past.fresh_relists),
        Observation::Position { mark, cause } => {
            follows(past.position.unwrap_or_default(), *mark, *cause, past.fresh_relists)
        }
        _ => Ok(()),
    }
}

fn follows(before: Mark, now: Mark, cause: Cause, fresh_relists: u64) -> Verdict {
    if before.epoch == now.epoch {
        return holds(before.version <= now.version, || format!("{now:?} follows {before:?}"));
    }
    let may = match cause {
        Cause::Changes | Cause::Relist { fresh: false } => false,
        Cause::Relist { fresh: true } => now.epoch == before.epoch + 1 && now.version < before.version,
        Cause::Unknown => now.epoch > before.epoch && now.epoch <= fresh_relists,
    };
    holds(may, || format!("{now:?} follows {before:?} by {cause:?}, after {fresh_relists} fresh relists"))
}

/// Property 14: the watermark of the cache never passes the position of the reflector.
pub(super) fn watermark(past: &Past, observation: &Observation<'_>) -> Verdict {
    let Observation::Cache(shown) = observation else { return Ok(()) };
    let ahead = past.position.is_some_and(|position| shown.mark > position);
    holds(!ahead, || format!("the cache is at {:?}, the reflector at {:?}", shown.mark, past.position))
}
