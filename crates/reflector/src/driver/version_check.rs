//! Compares the current resourceVersion of the server with the position, after a failure.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt};
use kube_listwatch::{ListAt, ListPart, ListRequest, ListerWatcher};
use kube_object::{NoCache, ResourceVersion};
use tokio::time::{sleep, timeout};

use super::{Driver, Reflector};
use crate::{Sink, server_versions::group_of};

/// The minimum delay before a failed check of the server's resourceVersion is repeated.
const MIN_CHECK_DELAY: Duration = Duration::from_secs(5);

impl<T: Send + Sync + 'static, S: Sink<T>> Driver<T, S> {
    /// Requests the current resourceVersion of the server, or joins the request of another reflector. A
    /// failed request is repeated while the watch is open.
    pub(super) fn check_version(&mut self) {
        let Reflector { source, server_versions, options, .. } = &self.reflector;
        let (source, versions) = (Arc::clone(source), server_versions.clone());
        let (failed_at, within) = (self.failed_at, options.list_deadline);
        let delay = options.backoff_initial.max(MIN_CHECK_DELAY);
        let check = async move {
            let path = source.path();
            loop {
                let version = current_version(Arc::clone(&source), within);
                match versions.check(group_of(&path), failed_at, version).await {
                    Some(version) => return version,
                    None => sleep(delay).await,
                }
            }
        };
        self.version_check = Some(check.boxed());
    }
}

/// Requests one object of the most recent state, and returns the resourceVersion of the list.
async fn current_version<T: Send + Sync + 'static>(
    source: Arc<dyn ListerWatcher<T>>,
    within: Duration,
) -> Option<ResourceVersion> {
    let request = ListRequest { at: ListAt::Consistent, limit: Some(1) };
    let mut parts = source.list(request, Arc::new(NoCache));
    let read = async {
        loop {
            match parts.next().await? {
                Ok(ListPart::Items { .. }) => {}
                Ok(ListPart::End(end)) => return Some(end.version),
                Err(error) => {
                    tracing::debug!(error = %error.with_causes(), "cannot read the current resourceVersion of the server; retrying");
                    return None;
                }
            }
        }
    };
    timeout(within, read).await.ok().flatten()
}
