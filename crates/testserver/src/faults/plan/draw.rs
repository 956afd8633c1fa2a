//! The numbers of a drawn fault: from zero up to those that were given.

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
        Fault::Delay(most) => Fault::Delay(time(*most, rng)),
        Fault::LateResponse(most) => Fault::LateResponse(time(*most, rng)),
        Fault::Disrupt(disruption) => Fault::Disrupt(disrupt(*disruption, rng)),
        Fault::Cut(CutAfter::Bytes(most)) => Fault::Cut(CutAfter::Bytes(rng.usize(..=*most))),
        Fault::Cut(CutAfter::Frames(most)) => Fault::Cut(CutAfter::Frames(rng.usize(..=*most))),
        Fault::Pieces(most) => Fault::Pieces(rng.usize(1..=(*most).max(1))),
        Fault::LoseEvent(most) => Fault::LoseEvent(rng.usize(..=*most)),
        Fault::RepeatEvent(most) => Fault::RepeatEvent(rng.usize(..=*most)),
        Fault::CloseWatch(most) => Fault::CloseWatch(rng.usize(..=*most)),
        Fault::ErrorEvent { after, status } => {
            Fault::ErrorEvent { after: rng.usize(..=*after), status: status.clone() }
        }
        Fault::SlowReader(most) => Fault::SlowReader(rng.usize(..=*most)),
        Fault::Status(_)
        | Fault::Forbidden { .. }
        | Fault::Raw { .. }
        | Fault::Reset
        | Fault::LoseResponse
        | Fault::Hang
        | Fault::Silence => fault.clone(),
    }
}

fn disrupt(disruption: Disruption, rng: &mut Rng) -> Disruption {
    match disruption {
        Disruption::Restore { back } => Disruption::Restore { back: rng.u64(..=back) },
        Disruption::RestoreBumped { back, bump } => {
            Disruption::RestoreBumped { back: rng.u64(..=back), bump }
        }
        Disruption::Lag(Lag::Revisions(most)) => Disruption::Lag(Lag::Revisions(rng.u64(..=most))),
        Disruption::Lag(Lag::Time(most)) => Disruption::Lag(Lag::Time(time(most, rng))),
        Disruption::JumpClock(most) => {
            let most = most.as_secs().saturating_abs();
            Disruption::JumpClock(SignedDuration::from_secs(rng.i64(-most..=most)))
        }
        other => other,
    }
}

/// In whole milliseconds.
fn time(most: Duration, rng: &mut Rng) -> Duration {
    let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(rng.u64(..=millis))
}
