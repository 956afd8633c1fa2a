//! Draws the parameters of a fault, from zero to the given upper bounds.

use fastrand::Rng;
use jiff::SignedDuration;
use tokio::time::Duration;

use crate::faults::{CutAfter, Disruption, Fault};
use crate::storage::watch_cache::Lag;

pub(super) fn draw(fault: &Fault, rng: &mut Rng) -> Fault {
    let mut fault = fault.clone();
    match &mut fault {
        Fault::Throttled { retry_after } => *retry_after = rng.u32(1..=(*retry_after).max(1)),
        Fault::Chunks(size) => *size = rng.usize(1..=(*size).max(1)),
        Fault::Delay(time) | Fault::LateResponse(time) | Fault::Disrupt(Disruption::Lag(Lag::Time(time))) => {
            let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            *time = Duration::from_millis(rng.u64(..=millis));
        }
        Fault::Cut(CutAfter::Bytes(count) | CutAfter::Frames(count))
        | Fault::LoseEvent(count)
        | Fault::RepeatEvent(count)
        | Fault::CloseWatch(count)
        | Fault::ErrorEvent { after: count, .. }
        | Fault::SlowReader(count) => *count = rng.usize(..=*count),
        Fault::Disrupt(
            Disruption::Restore { back: count }
            | Disruption::RestoreBumped { back: count, .. }
            | Disruption::Lag(Lag::Revisions(count)),
        ) => *count = rng.u64(..=*count),
        Fault::Disrupt(Disruption::JumpClock(by)) => {
            let max = by.as_secs().saturating_abs();
            *by = SignedDuration::from_secs(rng.i64(-max..=max));
        }
        _ => {}
    }
    fault
}
