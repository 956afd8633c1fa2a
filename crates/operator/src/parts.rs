//! What a manager runs: tasks that it owns, tells to stop, and waits for.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{Failure, Leadership};

/// What is dropped ends where it waits; who does not wait gets so long.
pub(crate) const LAST_MOMENT: Duration = Duration::from_secs(1);

/// More than anybody waits, and no more than a clock can count.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) type Work =
    Box<dyn FnOnce(Leadership, CancellationToken) -> BoxFuture<'static, Result<(), Failure>> + Send>;

/// A controller or a task before it runs.
pub(crate) struct Part {
    pub(crate) name: String,
    /// It runs only while this leads.
    pub(crate) leadership: Leadership,
    pub(crate) kind: Kind,
    pub(crate) work: Work,
}

/// What a part is, and so when it ends: controllers first, since they may use what tasks do.
pub(crate) enum Kind {
    /// With the runs that it has begun and not ended, which are tasks of its own.
    Controller(TaskTracker),
    Task,
}

/// Why a manager ends before it is told to, or what has gone wrong while it ended.
#[derive(Debug)]
pub(crate) enum Trouble {
    LeadershipLost,
    Failed(String, Failure),
    Panicked(String),
}

/// Controllers and tasks that run. Dropped, they are.
#[derive(Default)]
pub(crate) struct Parts {
    controllers: Group,
    tasks: Group,
    runs: Vec<(String, TaskTracker)>,
}

/// What is left when parts were told to stop.
#[derive(Debug)]
pub(crate) struct Rest {
    /// The first that has gone wrong.
    pub(crate) trouble: Option<Trouble>,
    /// Who is still at it: they don't wait, so that they can't be dropped.
    pub(crate) at_it: Vec<String>,
}

impl Parts {
    pub(crate) fn start(&mut self, parts: Vec<Part>) {
        for Part { name, leadership, kind, work } in parts {
            let group = match kind {
                Kind::Controller(runs) => {
                    self.runs.push((name.clone(), runs));
                    &mut self.controllers
                }
                Kind::Task => &mut self.tasks,
            };
            group.start(name, leadership, work);
        }
    }

    /// Returns when something has gone wrong. That all have ended is not.
    pub(crate) async fn trouble(&mut self) -> Trouble {
        tokio::select! {
            biased;
            trouble = self.controllers.trouble() => trouble,
            trouble = self.tasks.trouble() => trouble,
        }
    }

    /// Tells all to stop, the controllers first, waits for so long, and then drops those that are left.
    pub(crate) async fn stop(mut self, grace: Duration) -> Rest {
        let until = Instant::now() + grace.min(LONGEST);
        self.controllers.stop(until).await;
        self.tasks.stop(until.max(Instant::now() + LAST_MOMENT)).await;
        let runs = async {
            for (_, runs) in &self.runs {
                runs.close();
                runs.wait().await;
            }
        };
        let _in_time = timeout(LAST_MOMENT, runs).await;
        let running = self.runs.iter().filter(|(_, runs)| !runs.is_empty()).map(|(name, _)| name.clone());
        let mut at_it: Vec<_> =
            self.controllers.at_it().into_iter().chain(self.tasks.at_it()).chain(running).collect();
        at_it.sort_unstable();
        at_it.dedup();
        Rest { trouble: self.controllers.first.take().or(self.tasks.first.take()), at_it }
    }
}

/// Those that are told to stop together. Dropped, they are.
pub(crate) struct Group {
    tasks: JoinSet<Result<(), Trouble>>,
    names: Vec<(String, AbortHandle)>,
    stop: CancellationToken,
    /// Those that a part has given its stop to may live longer than the part.
    _stops: DropGuard,
    /// The first that has gone wrong.
    first: Option<Trouble>,
}

impl Default for Group {
    fn default() -> Self {
        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        Self { tasks: JoinSet::new(), names: Vec::new(), stop, _stops, first: None }
    }
}

impl Group {
    /// What runs for a leader is dropped at once when that leads no more, whatever is under way: also within a grace.
    pub(crate) fn start(&mut self, name: String, leadership: Leadership, work: Work) {
        let (stop, called) = (self.stop.child_token(), name.clone());
        let task = async move {
            let ended = tokio::select! {
                biased;
                () = lost(leadership.clone()) => return Err(Trouble::LeadershipLost),
                ended = AssertUnwindSafe(async move { work(leadership, stop).await }).catch_unwind() => ended,
            };
            match ended {
                Ok(Ok(())) => Ok(()),
                Ok(Err(failure)) => Err(Trouble::Failed(name, failure)),
                Err(_) => Err(Trouble::Panicked(name)),
            }
        };
        let handle = self.tasks.spawn(task);
        self.names.push((called, handle));
    }

    /// Returns when something has gone wrong, and not otherwise.
    pub(crate) async fn trouble(&mut self) -> Trouble {
        while let Some(joined) = self.tasks.join_next().await {
            if let Ok(Err(trouble)) = joined {
                return trouble;
            }
        }
        std::future::pending().await
    }

    /// Tells all to stop, and drops those that have not by then.
    pub(crate) async fn stop(&mut self, until: Instant) {
        self.stop.cancel();
        if timeout_at(until, self.all_ended()).await.is_err() {
            tracing::warn!(left = ?self.at_it(), "not all have ended in time: they are dropped");
            self.abandon().await;
        }
    }

    /// Drops them without letting them end what they do.
    pub(crate) async fn abandon(&mut self) {
        self.tasks.abort_all();
        let _in_time = timeout(LAST_MOMENT, self.all_ended()).await;
    }

    async fn all_ended(&mut self) {
        while let Some(joined) = self.tasks.join_next().await {
            if let Ok(Err(trouble)) = joined {
                self.first.get_or_insert(trouble);
            }
        }
    }

    fn at_it(&self) -> Vec<String> {
        let left = self.names.iter().filter(|(_, task)| !task.is_finished());
        left.map(|(name, _)| name.clone()).collect()
    }
}

/// Returns when this has led and its lease has expired. An election that has ended has given the lease back.
async fn lost(leadership: Leadership) {
    if leadership.acquired().await {
        leadership.lost().await;
        if !leadership.is_over() {
            return;
        }
    }
    std::future::pending::<()>().await;
}
