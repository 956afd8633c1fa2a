//! Compares the current resourceVersion of the server with the position, after a failure.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use kube_listwatch::{ListerWatcher, current_version};
use kube_object::ResourceVersion;
use tokio::time::{Instant, sleep, timeout};

use super::{Driver, Reflector};
use crate::{Sink, server_versions::group_of};

/// The minimum delay before a failed check of the server's resourceVersion is repeated.
const MIN_CHECK_DELAY: Duration = Duration::from_secs(5);

/// The maximum age of a shared check when the watch is requested. A server cannot be stopped, restored
/// and started in this time.
const MAX_SHARED_AGE: Duration = Duration::from_secs(5);

/// The minimum interval of checks after watches that closed without an error. A proxy may close each
/// watch after some seconds.
const MIN_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The last reason for a check. The server may have lost its history since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doubt {
    at: Instant,
    /// True after a watch that closed early without an error. False after a failure, and after an event
    /// out of order.
    closed: bool,
}

impl Doubt {
    pub(super) fn failed() -> Self {
        Self { at: Instant::now(), closed: false }
    }

    pub(super) fn closed() -> Self {
        Self { at: Instant::now(), closed: true }
    }
}

impl<T: Send + Sync + 'static, S: Sink<T>> Driver<T, S> {
    /// Requests the current resourceVersion of the server, or joins the request of another reflector. A
    /// failed request is repeated while the watch is open.
    pub(super) fn check_version(&mut self) {
        let Reflector { source, server_versions, options, .. } = &self.reflector;
        let (source, versions) = (Arc::clone(source), server_versions.clone());
        let path = source.path();
        let is_recent = |began: Instant| began.elapsed() < MIN_CHECK_INTERVAL;
        if self.doubt.closed && versions.last_began(group_of(&path)).is_some_and(is_recent) {
            return;
        }
        // An event before the doubt can have moved the position above the result of an older check.
        let shareable_at = self.requested_at.checked_sub(MAX_SHARED_AGE).unwrap_or(self.doubt.at);
        let earliest = self.doubt.at.max(shareable_at);
        let within = options.list_deadline;
        let delay = options.backoff_initial.max(MIN_CHECK_DELAY);
        let check = async move {
            loop {
                let version = read_version(Arc::clone(&source), within);
                match versions.check(group_of(&path), earliest, version).await {
                    Some(version) => return version,
                    None => sleep(delay).await,
                }
            }
        };
        self.version_check = Some(check.boxed());
    }
}

/// Returns the current resourceVersion of the server, or `None` if the request failed.
async fn read_version<T: Send + Sync + 'static>(
    source: Arc<dyn ListerWatcher<T>>,
    within: Duration,
) -> Option<ResourceVersion> {
    match timeout(within, current_version(&*source)).await {
        Ok(Ok(version)) => version,
        Ok(Err(error)) => {
            tracing::debug!(error = %error.with_causes(), "cannot read the current resourceVersion of the server; retrying");
            None
        }
        Err(_) => None,
    }
}
