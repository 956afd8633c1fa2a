//! Draws the parameters of a fault, from zero to the given upper bounds.

use fastrand::Rng;
use jiff::SignedDuration;
use tokio::time::Duration;

use crate::faults::{CutAfter, Disruption, Fault};
use crate::storage::watch_cache::Lag;

pub(super) fn draw(fault: &Fault, rng: &mut Rng) -> Fault {
    match fault {
        Fault::Throttled { retry_after } => {
            Fault::Throttled { retry_after: rng.u32(1..=(*retry_after).max(1)) }
        }
        Fault::Delay(max) => Fault::Delay(duration(*max, rng)),
        Fault::LateResponse(max) => Fault::LateResponse(duration(*max, rng)),
        Fault::Disrupt(disruption) => Fault::Disrupt(draw_disruption(*disruption, rng)),
        Fault::Cut(CutAfter::Bytes(max)) => Fault::Cut(CutAfter::Bytes(rng.usize(..=*max))),
        Fault::Cut(CutAfter::Frames(max)) => Fault::Cut(CutAfter::Frames(rng.usize(..=*max))),
        Fault::Chunks(max) => Fault::Chunks(rng.usize(1..=(*max).max(1))),
        Fault::LoseEvent(max) => Fault::LoseEvent(rng.usize(..=*max)),
        Fault::RepeatEvent(max) => Fault::RepeatEvent(rng.usize(..=*max)),
        Fault::CloseWatch(max) => Fault::CloseWatch(rng.usize(..=*max)),
        Fault::ErrorEvent { after, status } => {
            Fault::ErrorEvent { after: rng.usize(..=*after), status: status.clone() }
        }
        Fault::SlowReader(max) => Fault::SlowReader(rng.usize(..=*max)),
        Fault::Status(_)
        | Fault::Forbidden { .. }
        | Fault::Raw { .. }
        | Fault::Reset
        | Fault::LoseResponse
        | Fault::Hang
        | Fault::Silence => fault.clone(),
    }
}

fn draw_disruption(disruption: Disruption, rng: &mut Rng) -> Disruption {
    match disruption {
        Disruption::Restore { back } => Disruption::Restore { back: rng.u64(..=back) },
        Disruption::RestoreBumped { back, bump } => {
            Disruption::RestoreBumped { back: rng.u64(..=back), bump }
        }
        Disruption::Lag(Lag::Revisions(max)) => Disruption::Lag(Lag::Revisions(rng.u64(..=max))),
        Disruption::Lag(Lag::Time(max)) => Disruption::Lag(Lag::Time(duration(max, rng))),
        Disruption::JumpClock(max) => {
            let max = max.as_secs().saturating_abs();
            Disruption::JumpClock(SignedDuration::from_secs(rng.i64(-max..=max)))
        }
        other => other,
    }
}

/// Draws a duration in milliseconds.
fn duration(max: Duration, rng: &mut Rng) -> Duration {
    let millis = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(rng.u64(..=millis))
}
