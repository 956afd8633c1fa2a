//! What a manager runs: tasks that it owns, tells to stop, and waits for.

use std::{
    net::{SocketAddr, TcpListener},
    panic::AssertUnwindSafe,
    time::Duration,
};

use axum::Router;
use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Election, Failure, Leadership};

/// What is dropped ends where it waits; who does not wait gets so long.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// More than anybody waits, and no more than a clock can count.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

type Work = Box<dyn FnOnce(Leadership, CancellationToken) -> BoxFuture<'static, Result<(), Failure>> + Send>;

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

/// Why a manager ends before it is told to.
#[derive(Debug)]
pub(crate) enum Ended {
    LeadershipLost,
    Failed(String, Failure),
    Panicked(String),
}

/// Those that run. Dropped, they are.
#[derive(Default)]
pub(crate) struct Parts {
    controllers: Group,
    tasks: Group,
    runs: Vec<TaskTracker>,
}

#[derive(Default)]
struct Group {
    tasks: JoinSet<Result<(), Ended>>,
    stop: CancellationToken,
}

impl Parts {
    pub(crate) fn start(&mut self, parts: Vec<Part>) {
        for Part { name, leadership, kind, work } in parts {
            let group = match kind {
                Kind::Controller(runs) => {
                    self.runs.push(runs);
                    &mut self.controllers
                }
                Kind::Task => &mut self.tasks,
            };
            group.start(name, leadership, work);
        }
    }

    /// Returns when one has failed, or the leadership that there was is lost. That all have ended is no reason.
    pub(crate) async fn ended(&mut self, leadership: &Leadership) -> Ended {
        let lost = async {
            if !leadership.acquired().await {
                std::future::pending::<()>().await;
            }
            leadership.lost().await;
        };
        tokio::select! {
            biased;
            () = lost => Ended::LeadershipLost,
            ended = self.controllers.first_failure() => ended,
            ended = self.tasks.first_failure() => ended,
        }
    }

    /// Tells all to stop, waits for so long, and then drops those that are left. Whether nothing of them goes on.
    pub(crate) async fn stop(mut self, grace: Duration) -> bool {
        let until = Instant::now() + grace.min(LONGEST);
        self.controllers.stop(until).await;
        self.tasks.stop(until.max(Instant::now() + LAST_MOMENT)).await;
        let all = async {
            self.controllers.all_ended().await;
            self.tasks.all_ended().await;
            for runs in &self.runs {
                runs.close();
                runs.wait().await;
            }
        };
        timeout(LAST_MOMENT, all).await.is_ok()
    }
}

impl Group {
    fn start(&mut self, name: String, leadership: Leadership, work: Work) {
        let stop = self.stop.child_token();
        let work = async move { work(leadership, stop).await };
        self.tasks.spawn(async move {
            match AssertUnwindSafe(work).catch_unwind().await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(failure)) => Err(Ended::Failed(name, failure)),
                Err(_) => Err(Ended::Panicked(name)),
            }
        });
    }

    async fn first_failure(&mut self) -> Ended {
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok(Err(ended)) = ended {
                return ended;
            }
        }
        std::future::pending().await
    }

    async fn stop(&mut self, until: Instant) {
        self.stop.cancel();
        if timeout_at(until, self.all_ended()).await.is_err() {
            tracing::warn!(left = self.tasks.len(), "not all have ended in time: they are dropped");
            self.tasks.abort_all();
        }
    }

    async fn all_ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// One task that serves all others: the pages, or the election.
#[derive(Default)]
pub(crate) struct Served {
    task: JoinSet<()>,
    stop: CancellationToken,
}

impl Served {
    pub(crate) fn serve(&mut self, listener: Option<(TcpListener, SocketAddr)>, router: Router) {
        let Some((listener, address)) = listener else { return };
        let stop = self.stop.clone();
        self.task.spawn(async move {
            let served = async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                tracing::info!(%address, "serves metrics, health and debug pages");
                axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
            };
            if let Err(error) = served.await {
                tracing::error!(%address, %error, "can't serve metrics, health and debug pages any more");
            }
        });
    }

    pub(crate) fn elect(&mut self, election: Option<Election>) {
        if let Some(election) = election {
            self.task.spawn(election.run(self.stop.clone()));
        }
    }

    /// Waits for its end, which is bounded by what it waits for; connections that stay open are cut.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let _cut = timeout(FAREWELL, self.task.join_next()).await;
        self.task.shutdown().await;
    }

    /// Without letting it end what it does.
    pub(crate) async fn abandon(mut self) {
        self.task.shutdown().await;
    }
}

/// To answer what was asked, or to give back the lease: two requests.
const FAREWELL: Duration = Duration::from_secs(6);
