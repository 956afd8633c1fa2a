//! `Connections`: the open connections of a server. At the limit, a new connection replaces another one.

use std::{
    future::{Future, pending},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

/// The tasks of the open connections.
pub(super) struct Connections {
    limit: usize,
    closes_busy: bool,
    tasks: JoinSet<()>,
    /// The open connections, the oldest first.
    open: Vec<(AbortHandle, Arc<Mutex<Activity>>)>,
    /// A request has completed.
    idle: Arc<Notify>,
}

/// The activity of a connection. If a place is needed, the connection with the smallest value is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    /// No request so far.
    Silent,
    /// No request since this time.
    Idle(Instant),
    /// A request is in progress.
    Busy,
}

/// Records the activity of one connection.
#[derive(Clone)]
pub(super) struct ConnectionState {
    activity: Arc<Mutex<Activity>>,
    idle: Arc<Notify>,
}

/// A request in progress. Dropping this value completes the request.
pub(super) struct BusyConnection(ConnectionState);

impl Connections {
    pub(super) fn new(limit: usize, closes_busy: bool) -> Self {
        Self { limit, closes_busy, tasks: JoinSet::new(), open: Vec::new(), idle: Arc::default() }
    }

    /// Returns whether a further connection is below the limit, or can replace another connection.
    pub(super) fn has_place(&self) -> bool {
        self.open.len() < self.limit || self.replaceable().is_some()
    }

    /// Returns the index of the connection that a further connection closes.
    fn replaceable(&self) -> Option<usize> {
        let connections = self.open.iter().map(|(_, activity)| *activity.lock()).enumerate();
        let least = connections.min_by_key(|(_, activity)| *activity);
        least.filter(|(_, activity)| self.closes_busy || *activity != Activity::Busy).map(|(index, _)| index)
    }

    /// Starts the task of a connection. Closes another connection at the limit. If a request has
    /// started on it in between, the limit is exceeded by one.
    pub(super) fn spawn<F>(&mut self, serve: impl FnOnce(ConnectionState) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.open.len() >= self.limit
            && let Some(index) = self.replaceable()
        {
            self.open.remove(index).0.abort();
        }
        let activity = Arc::new(Mutex::new(Activity::Silent));
        let state = ConnectionState { activity: Arc::clone(&activity), idle: Arc::clone(&self.idle) };
        self.open.push((self.tasks.spawn(serve(state)), activity));
    }

    /// Waits until a connection is closed or a request has completed.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            Some(_) = self.tasks.join_next() => self.open.retain(|(task, _)| !task.is_finished()),
            () = self.idle.notified(), if self.open.len() >= self.limit => {}
            else => pending().await,
        }
    }

    /// Waits until all connections are closed.
    pub(super) async fn join(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

impl ConnectionState {
    pub(super) fn begin_request(&self) -> BusyConnection {
        *self.activity.lock() = Activity::Busy;
        BusyConnection(self.clone())
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        *self.0.activity.lock() = Activity::Idle(Instant::now());
        self.0.idle.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    /// Opens connections that stay open, and returns their states.
    fn open(connections: &mut Connections, count: usize) -> Vec<ConnectionState> {
        let mut states = Vec::new();
        for _ in 0..count {
            connections.spawn(|state| {
                states.push(state);
                pending()
            });
        }
        states
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connections_are_closed_first_and_busy_ones_never() {
        let mut connections = Connections::new(4, false);
        let states = open(&mut connections, 4);
        let mut busy = vec![states[0].begin_request()];
        for state in [&states[3], &states[1]] {
            drop(state.begin_request());
            advance(Duration::from_secs(1)).await;
        }
        let is_open = |connections: &Connections, index: usize| {
            connections.open.iter().any(|(_, activity)| Arc::ptr_eq(activity, &states[index].activity))
        };
        for closed in [2, 3, 1] {
            assert!(connections.has_place() && is_open(&connections, closed));
            busy.push(open(&mut connections, 1)[0].begin_request());
            assert!(!is_open(&connections, closed), "{closed}");
        }
        assert!(!connections.has_place(), "all connections are busy");
        busy.pop();
        connections.changed().await;
        assert!(connections.has_place());
        let mut pages = Connections::new(1, true);
        let _busy = open(&mut pages, 1)[0].begin_request();
        assert!(pages.has_place());
    }

    #[tokio::test]
    async fn closed_connection_does_not_count() {
        let mut connections = Connections::new(1, false);
        connections.spawn(|state| async move { drop(state.begin_request()) });
        while !connections.has_place() || !connections.open.is_empty() {
            connections.changed().await;
        }
    }
}
