//! What a manager runs: tasks that it owns, tells to stop, and waits for.

use std::{
    net::{SocketAddr, TcpListener},
    panic::AssertUnwindSafe,
    time::Duration,
};

use axum::Router;
use futures_util::{FutureExt, future::BoxFuture};
use tokio::{task::JoinSet, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Election, Failure, Leadership};

/// What is dropped ends where it waits; who does not wait gets so long.
const LAST_MOMENT: Duration = Duration::from_secs(1);

type Work = Box<dyn FnOnce(Leadership, CancellationToken) -> BoxFuture<'static, Result<(), Failure>> + Send>;

/// A controller or a task before it runs.
pub(crate) struct Part {
    pub(crate) name: String,
    /// It runs only while this leads.
    pub(crate) leadership: Leadership,
    /// What it has begun and not ended, where that are tasks of its own.
    pub(crate) runs: Option<TaskTracker>,
    pub(crate) work: Work,
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
    tasks: JoinSet<Result<(), Ended>>,
    runs: Vec<TaskTracker>,
    stop: CancellationToken,
}

impl Parts {
    pub(crate) fn start(&mut self, parts: Vec<Part>) {
        for Part { name, leadership, runs, work } in parts {
            self.runs.extend(runs);
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
            ended = first_failure(&mut self.tasks) => ended,
        }
    }

    /// Tells all to stop, waits for so long, and then drops those that are left. Whether nothing of them goes on.
    pub(crate) async fn stop(mut self, grace: Duration) -> bool {
        self.stop.cancel();
        if timeout(grace, all(&mut self.tasks)).await.is_err() {
            tracing::warn!(left = self.tasks.len(), ?grace, "not all have ended in time: they are dropped");
            self.tasks.abort_all();
        }
        let runs = async {
            all(&mut self.tasks).await;
            for runs in &self.runs {
                runs.close();
                runs.wait().await;
            }
        };
        timeout(LAST_MOMENT, runs).await.is_ok()
    }
}

async fn first_failure(tasks: &mut JoinSet<Result<(), Ended>>) -> Ended {
    while let Some(ended) = tasks.join_next().await {
        if let Ok(Err(ended)) = ended {
            return ended;
        }
    }
    std::future::pending().await
}

async fn all(tasks: &mut JoinSet<Result<(), Ended>>) {
    while tasks.join_next().await.is_some() {}
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
