//! `ManagerError` describes a failed start or an early stop of a manager.

use kube_informer::{CacheSyncError, ObjectKey};

use super::task_group::TaskFailure;
#[cfg(feature = "tls")]
use crate::observe::certificate::CertificateError;
use crate::{ElectionError, Failure, RbacPermission, election::ElectionView};

/// Reports that a manager could not start, stopped because a part failed, or did not stop in time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// A socket for the pages could not be opened.
    #[cfg(feature = "http")]
    #[error("cannot listen on {address}; choose another address, or set the address to `None`")]
    Bind {
        /// The address from the options.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file of [`CertificateSource::Files`](crate::CertificateSource::Files) is missing or invalid.
    #[cfg(feature = "tls")]
    #[error(
        "cannot use {} for TLS: {reason}; correct the file or its path in `secure_serving`, \
         or set `secure_serving` to `None`",
        .file.display()
    )]
    Certificate {
        /// The file that cannot be used.
        file: std::path::PathBuf,
        /// The reason why the file cannot be used.
        reason: String,
    },
    /// The self-signed certificate could not be created.
    #[cfg(feature = "tls")]
    #[error("cannot create a self-signed certificate: {reason}; use `CertificateSource::Files` instead")]
    SelfSignedCertificate {
        /// The reason for the failure.
        reason: String,
    },
    /// An option of the webhook server is invalid.
    #[cfg(feature = "webhooks")]
    #[error("the webhook option `{option}` is invalid: {reason}")]
    InvalidWebhookOption {
        /// The name of the option, for example `SecretCertificate::validity`.
        option: &'static str,
        /// The reason why the option is invalid, and the correction.
        reason: String,
    },
    /// The election options are unsafe.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// The election and the shard group would use the same Lease.
    #[error(
        "the election and the shard group have the same Lease {0}; use another name in `ManagerOptions::shards`"
    )]
    SameLease(ObjectKey),
    /// The option [`ManagerOptions::shards`](crate::ManagerOptions::shards) contains a shard key that
    /// controllers do not support.
    #[error(
        "controllers do not support `ShardKey::Uid`, because a key does not contain the uid; use `ShardKey::Namespace` or `ShardKey::Name` in `ManagerOptions::shards`"
    )]
    UnsupportedShardKey,
    /// An informer caches only some slots, and its slots are not the slots of the manager.
    #[error(
        "the informer {informer} is sharded, but not by the key and count in `ManagerOptions::shards`; use equal values, or an informer of all slots"
    )]
    OtherSlots {
        /// The name of the informer.
        informer: String,
    },
    /// A controller needs objects of all slots, but an informer caches only the slots of this process.
    #[error(
        "the controller {controller:?} needs objects of all slots, but the informer {informer} caches only the slots of this process; use `Selection::all_slots`, or `ClusterSharding::ByKey` for many clusters"
    )]
    IncompleteInformer {
        /// The name of the controller.
        controller: String,
        /// The name of the informer.
        informer: String,
    },
    /// Two controllers or tasks have the same name. Metrics and pages could not distinguish them.
    #[error("two controllers or tasks have the name {0:?}; use unique names")]
    DuplicateName(String),
    /// Some caches did not receive their initial list within
    /// [`ManagerOptions::cache_sync_timeout`](crate::ManagerOptions::cache_sync_timeout).
    #[error("{error}{}", hint(missing))]
    CacheSync {
        /// The informers that are not synced, with their last errors.
        error: CacheSyncError,
        /// RBAC rules that the account lacks, according to the server.
        missing: Vec<RbacPermission>,
    },
    /// The lease expired, and another process may be the leader now. This process must exit, because
    /// work that it started as the leader may still be running, for example in a spawned task.
    #[error("lost the lease {lease}: {reason}; this process must exit")]
    LeadershipLost {
        /// The namespace and name of the Lease.
        lease: String,
        /// The cause of the loss: the identity of the new leader, or the last error of the election. If no
        /// request failed, the process was probably paused.
        reason: String,
    },
    /// A controller or a task failed.
    #[error("controller or task {name:?} failed: {failure}")]
    TaskFailed {
        /// The name of the controller or the task.
        name: String,
        /// The failure.
        failure: Failure,
    },
    /// A controller or a task panicked. A panic in a reconcile is retried, and does not cause this
    /// error.
    #[error("controller or task {0:?} panicked")]
    TaskPanicked(String),
    /// A controller, a task or an informer handler blocks its thread, so the manager could not abort it
    /// after the grace period. The lease is not released, and the next leader waits until it expires.
    ///
    /// The process must exit with [`std::process::exit`], because a Tokio runtime waits for blocked
    /// threads when it is dropped.
    #[error("shutdown timed out; still running: {}{}", .still_running.join(", "), caused_by(.cause.as_deref()))]
    ShutdownTimeout {
        /// The names of the controllers and tasks that are still running.
        still_running: Vec<String>,
        /// The error that stopped the manager; `None` after a stop signal.
        cause: Option<Box<ManagerError>>,
    },
}

#[cfg(feature = "tls")]
impl From<CertificateError> for ManagerError {
    fn from(CertificateError { file, reason }: CertificateError) -> Self {
        Self::Certificate { file, reason }
    }
}

fn caused_by(cause: Option<&ManagerError>) -> String {
    cause.map(|cause| format!("; cause of the shutdown: {cause}")).unwrap_or_default()
}

fn hint(missing: &[RbacPermission]) -> String {
    missing.iter().map(|rule| format!("; this account {rule}")).collect()
}

impl ManagerError {
    /// Creates the error of a failed task. `LeadershipLost` occurs only with an election.
    pub(super) fn from_failure(failure: TaskFailure, election: Option<&ElectionView>) -> Self {
        match failure {
            TaskFailure::LeadershipLost => {
                let lease = election.map(|election| election.lease.to_string()).unwrap_or_default();
                let reason = election.map(ElectionView::loss_reason).unwrap_or_default();
                Self::LeadershipLost { lease, reason }
            }
            TaskFailure::Failed(name, failure) => Self::TaskFailed { name, failure },
            TaskFailure::Panicked(name) => Self::TaskPanicked(name),
        }
    }
}
