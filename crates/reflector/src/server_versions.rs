//! `ServerVersions`: detects a server that was restored to an older state, with one request for several
//! reflectors.

use std::{
    collections::HashMap,
    fmt,
    future::{Future, ready},
    sync::{Arc, OnceLock},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use kube_object::ResourceVersion;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Lets several reflectors of one API server share a request for its current resourceVersion.
///
/// After a server was restored to an older state, the last resourceVersion of a reflector can be higher
/// than the resourceVersion of the server. The server accepts a watch from this higher resourceVersion,
/// but sends no events. After a failed watch, a reflector therefore requests the current resourceVersion
/// of the server. If the server returns a lower resourceVersion than the reflector has received, the
/// reflector relists.
///
/// Reflectors with the same `ServerVersions` and the same API group share one request. Reflectors of
/// different API groups do not share a request, because an aggregated API server has separate
/// resourceVersions. A clone of a `ServerVersions` shares the requests of the original.
#[derive(Clone, Default)]
pub struct ServerVersions(Arc<Mutex<HashMap<String, Check>>>);

/// A request for the resourceVersion of the server that runs or has completed.
struct Check {
    began: Instant,
    /// The request runs only while a reflector waits for it. A stopped reflector does not keep it.
    running: WeakShared<BoxFuture<'static, Option<ResourceVersion>>>,
    /// Set when the request has succeeded.
    version: Arc<OnceLock<ResourceVersion>>,
}

/// Returns the current resourceVersion of the server, or `None` if the request failed.
pub(crate) type VersionCheck = Shared<BoxFuture<'static, Option<ResourceVersion>>>;

impl ServerVersions {
    /// Returns a check of this API group that did not start before `earliest`. If there is no such
    /// check, starts `request` as a new check.
    ///
    /// The request makes progress while one of its callers polls it.
    pub(crate) fn check(
        &self,
        group: &str,
        earliest: Instant,
        request: impl Future<Output = Option<ResourceVersion>> + Send + 'static,
    ) -> VersionCheck {
        let mut checks = self.0.lock();
        if let Some(check) = checks.get(group)
            && check.began >= earliest
            && let Some(version) = check.shared()
        {
            return version;
        }
        let version = Arc::new(OnceLock::new());
        let finished = Arc::clone(&version);
        let request = request.inspect(move |read| {
            if let Some(read) = read {
                finished.get_or_init(|| read.clone());
            }
        });
        let shared = request.boxed().shared();
        if let Some(running) = shared.downgrade() {
            checks.insert(group.to_owned(), Check { began: Instant::now(), running, version });
        }
        shared
    }
}

impl Check {
    /// Returns the request, unless it has failed or no reflector waits for it.
    fn shared(&self) -> Option<VersionCheck> {
        match self.version.get() {
            Some(version) => Some(ready(Some(version.clone())).boxed().shared()),
            None => self.running.upgrade().filter(|running| running.peek() != Some(&None)),
        }
    }
}

impl ServerVersions {
    /// Returns the time when the last check of this API group started.
    pub(crate) fn last_began(&self, group: &str) -> Option<Instant> {
        self.0.lock().get(group).map(|check| check.began)
    }
}

impl fmt::Debug for ServerVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerVersions").finish_non_exhaustive()
    }
}

/// Returns the API group of a path: `apps` for `/apis/apps/v1/deployments`, and an empty text for
/// `/api/v1/pods` and for unknown paths.
pub(crate) fn group_of(path: &str) -> &str {
    path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use super::*;

    #[test]
    fn group_is_first_part_of_path() {
        let groups = ["/apis/apps/v1/deployments", "/api/v1/pods", "", "/apis/"].map(group_of);
        assert_eq!(groups, ["apps", "", "", ""]);
    }

    #[tokio::test(start_paused = true)]
    async fn check_is_shared_until_it_fails_or_is_older_than_failure() {
        let versions = ServerVersions::default();
        let check = |group, failure, version: Option<u64>| {
            versions.check(group, failure, ready(version.map(ResourceVersion::from)))
        };
        let start = Instant::now();
        assert_eq!(check("apps", start, None).await, None);
        assert_eq!(check("apps", start, Some(7)).await, Some(7.into()), "the first check failed");
        assert_eq!(check("apps", start, Some(8)).await, Some(7.into()), "shared");
        assert_eq!(check("batch", start, Some(9)).await, Some(9.into()), "another group");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(check("apps", Instant::now(), Some(10)).await, Some(10.into()), "older than the failure");
    }

    /// A reflector drops its check when it stops.
    #[tokio::test(start_paused = true)]
    async fn running_check_is_dropped_with_its_last_caller() {
        let versions = ServerVersions::default();
        let start = Instant::now();
        let request = Arc::new(());
        let held = Arc::clone(&request);
        let first = versions.check("apps", start, async move {
            let _held = held;
            pending().await
        });
        let second = versions.check("apps", start, async { unreachable!("the first check runs") });
        assert!(first.clone().now_or_never().is_none());
        drop(first);
        assert!(second.clone().now_or_never().is_none());
        assert_eq!(Arc::strong_count(&request), 2);
        drop(second);
        assert_eq!(Arc::strong_count(&request), 1, "the request is open");
        let third = versions.check("apps", start, ready(Some(7.into())));
        assert_eq!(third.await, Some(7.into()));
    }
}
