//! What a manager runs: tasks that it owns, tells to stop, and waits for.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, select_all},
};
use tokio::{
    task::{AbortHandle, JoinError, JoinSet},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Failure, Leadership, controller::state::ControllerState};

/// What is dropped ends where it waits; who does not wait gets so long.
pub(crate) const LAST_MOMENT: Duration = Duration::from_secs(1);

/// So long what was dropped may still have a request on its way: as long as others wait, by default, for a process that died.
const ON_ITS_WAY: Duration = Duration::from_secs(15);

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
    /// With the runs that it has begun and not ended, which are tasks of its own, and what is wrong with it.
    Controller(Arc<ControllerState>),
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
pub(crate) struct Parts {
    controllers: Group,
    tasks: Group,
    states: Vec<(String, Arc<ControllerState>)>,
}

/// What is left when parts were told to stop.
#[derive(Debug)]
pub(crate) struct Rest {
    /// The first that has gone wrong.
    pub(crate) trouble: Option<Trouble>,
    /// Who is still at it: they don't wait, so that they can't be dropped.
    pub(crate) at_it: Vec<String>,
    /// None had to be dropped, or has panicked: no request of theirs may still be on its way.
    pub(crate) all_ended: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            controllers: Group { lasts: true, ..Group::default() },
            tasks: Group::default(),
            states: Vec::new(),
        }
    }
}

impl Parts {
    pub(crate) fn start(&mut self, parts: Vec<Part>) {
        for Part { name, leadership, kind, work } in parts {
            let group = match kind {
                Kind::Controller(state) => {
                    self.states.push((name.clone(), state));
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
            // It ends when its runs have, for which the grace is.
            trouble = troubled(&self.states) => trouble,
        }
    }

    /// Tells all to stop, the controllers first, waits for so long, and then drops those that are left.
    pub(crate) async fn stop(mut self, grace: Duration) -> Rest {
        let until = Instant::now() + grace.min(LONGEST);
        let controllers_ended = self.controllers.stop(until).await;
        let tasks_ended = self.tasks.stop(until.max(Instant::now() + LAST_MOMENT)).await;
        let runs = async {
            for (_, state) in &self.states {
                state.runs.close();
                state.runs.wait().await;
            }
        };
        let _in_time = timeout(LAST_MOMENT, runs).await;
        let running = self.states.iter().filter(|(_, state)| !state.runs.is_empty());
        let running = running.map(|(name, _)| name.clone());
        let mut at_it: Vec<_> =
            self.controllers.at_it().into_iter().chain(self.tasks.at_it()).chain(running).collect();
        at_it.sort_unstable();
        at_it.dedup();
        let trouble = self.controllers.first.take().or(self.tasks.first.take());
        let recently = |(_, state): &(String, Arc<ControllerState>)| state.was_cut_short_within(ON_ITS_WAY);
        let cut_short =
            self.controllers.cut_short || self.tasks.cut_short || self.states.iter().any(recently);
        Rest { trouble, at_it, all_ended: controllers_ended && tasks_ended && !cut_short }
    }
}

/// Returns when one of these controllers takes no more keys, and not otherwise.
async fn troubled(states: &[(String, Arc<ControllerState>)]) -> Trouble {
    let each = states.iter().map(|(name, state)| {
        async move { Trouble::Failed(name.clone(), state.in_trouble().await.into()) }.boxed()
    });
    // Of none at all there is no first.
    let never = std::future::pending().boxed();
    select_all(each.chain([never])).await.0
}

/// Those that are told to stop together. Dropped, they are.
pub(crate) struct Group {
    tasks: JoinSet<Result<(), Trouble>>,
    names: Vec<(String, AbortHandle)>,
    /// None ends by itself, unless it has seen that it leads no more: maybe as the only one, if the lease was renewed late.
    lasts: bool,
    stop: CancellationToken,
    /// Those that a part has given its stop to may live longer than the part.
    _stops: DropGuard,
    /// The first that has gone wrong.
    first: Option<Trouble>,
    /// One has panicked or was dropped where it waited: a request of its may still be on its way.
    cut_short: bool,
}

impl Default for Group {
    fn default() -> Self {
        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        Self {
            tasks: JoinSet::new(),
            names: Vec::new(),
            lasts: false,
            stop,
            _stops,
            first: None,
            cut_short: false,
        }
    }
}

impl Group {
    /// What runs for a leader is dropped at once when that leads no more, whatever is under way: also within a grace.
    pub(crate) fn start(&mut self, name: String, leadership: Leadership, work: Work) {
        let (stop, called) = (self.stop.child_token(), name.clone());
        let (told, lasts) = (stop.clone(), self.lasts);
        let task = async move {
            let ended = tokio::select! {
                biased;
                () = lost(leadership.clone()) => return Err(Trouble::LeadershipLost),
                ended = AssertUnwindSafe(async move { work(leadership, stop).await }).catch_unwind() => ended,
            };
            match ended {
                Ok(Ok(())) if lasts && !told.is_cancelled() => Err(Trouble::LeadershipLost),
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
            if let Some(trouble) = self.ended(joined) {
                return trouble;
            }
        }
        std::future::pending().await
    }

    /// Tells all to stop, and drops those that have not by then; `false` if there are any.
    pub(crate) async fn stop(&mut self, until: Instant) -> bool {
        self.stop.cancel();
        let in_time = timeout_at(until, self.all_ended()).await.is_ok();
        if !in_time {
            tracing::warn!(left = ?self.at_it(), "not all have ended in time: they are dropped");
            self.abandon().await;
        }
        in_time
    }

    /// Drops them without letting them end what they do.
    pub(crate) async fn abandon(&mut self) {
        self.tasks.abort_all();
        let _in_time = timeout(LAST_MOMENT, self.all_ended()).await;
    }

    async fn all_ended(&mut self) {
        while let Some(joined) = self.tasks.join_next().await {
            if let Some(trouble) = self.ended(joined) {
                self.first.get_or_insert(trouble);
            }
        }
    }

    fn ended(&mut self, joined: Result<Result<(), Trouble>, JoinError>) -> Option<Trouble> {
        self.cut_short |= matches!(joined, Err(_) | Ok(Err(Trouble::Panicked(_) | Trouble::LeadershipLost)));
        joined.ok()?.err()
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

#[cfg(test)]
mod tests {
    use futures_util::TryFutureExt;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_client::Client;
    use kube_informer::InformerFactory;
    use kube_testserver::Server;
    use tokio::{
        sync::{mpsc, watch},
        task::yield_now,
        time::{advance, sleep},
    };

    use super::*;
    use crate::{Action, Controller, Request, election::leadership::Standing, observe::metrics::Metrics};

    const SECOND: Duration = Duration::from_secs(1);

    /// A timer comes with the next millisecond. A worker that asks the clock before it does may be the only one that sees
    /// that the lease has expired, if the answer to the renewal comes at that very moment.
    #[tokio::test(start_paused = true)]
    async fn a_controller_that_ends_for_want_of_a_lease_is_trouble_even_if_the_lease_is_back_at_once() {
        let server = Server::new();
        let factory = InformerFactory::new(Client::new(server.service(), "default"));
        let (ask, asked) = mpsc::channel(9);
        let asked =
            futures_util::stream::unfold(asked, |mut asked| async { Some((asked.recv().await?, asked)) });
        let controller = Controller::<ConfigMap>::new(&factory.informer().unwrap());
        let done = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Action::AwaitChange) };
        let prepared = controller.watches_stream("a test", asked).prepare(done, &Metrics::default());

        let until = Instant::now() + 10 * SECOND + Duration::from_micros(500);
        let (standing, leads) = watch::channel(Standing::Leads(until));
        let mut parts = Parts::default();
        parts.start(vec![Part {
            name: "a controller".to_owned(),
            leadership: Leadership::new(leads),
            kind: Kind::Controller(Arc::clone(&prepared.state)),
            work: Box::new(|leadership, stop| prepared.run(leadership, stop).map_err(Failure::from).boxed()),
        }]);
        sleep(SECOND).await;
        advance(until - Instant::now() + Duration::from_micros(100)).await;
        ask.send("default/a".parse().unwrap()).await.unwrap();
        for _ in 0..50 {
            yield_now().await; // the worker sees it, and no timer comes
        }
        standing.send_replace(Standing::Leads(Instant::now() + 3600 * SECOND));
        let trouble = timeout(60 * SECOND, parts.trouble()).await;
        assert!(matches!(trouble, Ok(Trouble::LeadershipLost)), "{trouble:?}");
    }
}
