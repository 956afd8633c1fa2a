//! The effects of disruptions and fault plans on the state and on open watches.

use std::sync::Arc;

use crate::faults::open_watches::Command;
use crate::faults::{Disruption, FaultPlan, PlanState};
use crate::journal::{FaultKind, RequestMatch};
use crate::state::{Shared, State};
use crate::status::Status;
use crate::storage::log::{Compacted, Expiry};
use crate::storage::watch_cache::{CacheId, Lag};
use crate::write::custom::serve::serve_restored;

impl Shared {
    pub(crate) fn disrupt(&self, disruption: Disruption) {
        match disruption {
            Disruption::Compact => self.expire(Expiry::Both, u64::MAX),
            Disruption::ExpireLists => self.expire(Expiry::Lists, u64::MAX),
            Disruption::ExpireWatches => self.expire(Expiry::Watches, u64::MAX),
            Disruption::FailWatches => {
                self.fail_watches(&RequestMatch::any(), Status::expired());
            }
            Disruption::Restart => self.restart(CacheId::MAIN),
            Disruption::Restore { back } => self.restore_back(back, 0),
            Disruption::RestoreBumped { back, bump } => self.restore_back(back, bump),
            Disruption::Lag(lag) => self.lag(CacheId::MAIN, lag),
            Disruption::JumpClock(by) => self.config.clock.jump(by),
        }
    }

    /// Stops the lasting effects of a disruption.
    pub(crate) fn heal(&self, disruption: Disruption) {
        if let Disruption::Lag(_) = disruption {
            self.lag(CacheId::MAIN, Lag::None);
        }
    }

    /// Removes history up to and including this version.
    pub(crate) fn expire(&self, expiry: Expiry, up_to: u64) {
        self.write(|state| state.store.expire(expiry, up_to));
    }

    /// Restarts a watch cache, and breaks the watches that it serves.
    pub(crate) fn restart(&self, cache: CacheId) {
        self.write(|state| {
            state.store.restart_cache(cache);
            self.open.send_command(&Command::Abort, |request| request.replica == cache.number());
        });
        self.stir();
    }

    pub(crate) fn lag(&self, cache: CacheId, lag: Lag) {
        self.write(|state| state.store.lag(cache, lag));
        self.stir();
    }

    /// Restores the state `back` revisions ago, or the oldest one in the history, and adds `bump` to
    /// the revision.
    fn restore_back(&self, back: u64, bump: u64) {
        self.write(|state| {
            let version = state.store.revision().saturating_sub(back).max(state.store.oldest());
            // The history contains the oldest version, so this cannot fail.
            let _ = self.restore_in(state, version, bump);
        });
    }

    /// Restores the state of a version, and adds `bump` to the revision.
    pub(crate) fn restore(&self, version: u64, bump: u64) -> Result<(), Status> {
        self.write(|state| self.restore_in(state, version, bump)).map_err(|_| Status::list_expired())
    }

    /// Also breaks all watches. Otherwise a watch could send new events with the versions of lost events.
    fn restore_in(&self, state: &mut State, version: u64, bump: u64) -> Result<(), Compacted> {
        state.store.restore(version)?;
        self.open.send_command(&Command::Abort, |_| true);
        serve_restored(state, self);
        if bump > 0 {
            state.store.bump(bump);
        }
        Ok(())
    }

    /// Closes the watches that `matches` selects with an ERROR event. Returns the number of these
    /// watches.
    pub(crate) fn fail_watches(&self, matches: &RequestMatch, status: Status) -> usize {
        self.open.send_command(&Command::Fail(status), |request| matches.selects(request))
    }

    /// Starts a plan, and stops the previous plan.
    pub(crate) fn run_plan(&self, plan: FaultPlan) -> Arc<PlanState> {
        let state = Arc::new(PlanState::new(plan));
        let previous = self.plan.lock().replace(state.clone());
        if let Some(previous) = previous {
            self.stop_plan(&previous);
        }
        state
    }

    /// Stops a plan and its lasting effects.
    pub(crate) fn stop_plan(&self, plan: &PlanState) {
        if !plan.stop() {
            return;
        }
        if plan.counts().contains_key(&FaultKind::Lag) {
            self.lag(CacheId::MAIN, Lag::None);
        }
        self.open.send_to_misled(&Command::Fail(Status::expired()));
    }
}
