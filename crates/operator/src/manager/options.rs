//! The options of a manager.

#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::time::Duration;

use crate::{ElectionOptions, ShardOptions};

/// Configures a [`Manager`](crate::Manager).
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    /// The address of the metrics, health and debug pages, and of the page for browsers at `/`. `None`
    /// disables these pages.
    ///
    /// The default is port 8080 of the loopback address, which other hosts cannot reach. Port 0
    /// selects a free port, which [`Manager::local_address`](crate::Manager::local_address)
    /// returns.
    #[cfg(feature = "http")]
    pub bind_address: Option<std::net::SocketAddr>,
    /// An additional address that serves only `/healthz` and `/readyz`. The default is `None`.
    ///
    /// Use this address for the probes of the kubelet. The kubelet connects from outside of the Pod, and
    /// cannot reach a loopback address. At this address, the pages contain only the names and results of
    /// the checks. At [`bind_address`](Self::bind_address), they also contain error texts.
    #[cfg(feature = "http")]
    pub probe_address: Option<std::net::SocketAddr>,
    /// TLS and authorization for the pages at [`bind_address`](Self::bind_address). The default is `None`:
    /// the pages use plain HTTP, and every client may read them. The pages at
    /// [`probe_address`](Self::probe_address) always use plain HTTP without authorization.
    #[cfg(feature = "tls")]
    pub secure_serving: Option<SecureServing>,
    /// Whether the page `/debug/why` contains the changes of objects before a reconcile: the names of the
    /// changed fields, and the field manager of the latest write. The default is `false`.
    ///
    /// The informers of [`Manager::new`](crate::Manager::new) then parse each received object twice. The
    /// manager stores no values, and at most 4,096 objects. Each object has up to 64 hashes of fields, 16
    /// field managers and 4 changes. They need at most about 16 KB if names have usual lengths.
    pub explain_changes: bool,
    /// The election that decides which process is the leader. The default is `None`: every process acts
    /// as the leader.
    pub election: Option<ElectionOptions>,
    /// The group of processes that share the objects of the controllers. The default is `None`. This option
    /// is experimental.
    ///
    /// With this option, the controllers of [`Manager::add_controller`](crate::Manager::add_controller) and
    /// [`Manager::add_cluster_controller`](crate::Manager::add_cluster_controller) run in every
    /// process, and each process reconciles only the objects in its slots. The option
    /// [`election`](Self::election) then decides only about tasks and controllers that run on the leader.
    ///
    /// Controllers support [`ShardKey::Namespace`](kube_object::ShardKey::Namespace) and
    /// [`ShardKey::Name`](kube_object::ShardKey::Name).
    pub shards: Option<ShardOptions>,
    /// The time limit for the initial lists of all caches. If it expires, the manager stops with
    /// [`ManagerError::CacheSync`](crate::ManagerError::CacheSync). The default is 2 minutes.
    pub cache_sync_timeout: Duration,
    /// The grace period: the time limit for running reconciles and tasks after a stop. If it
    /// expires, the manager aborts them, and does not release the lease.
    ///
    /// The default is 20 s. The rest of the shutdown takes at most 9 s. By default, the kubelet kills a
    /// process after 30 s.
    pub graceful_shutdown_timeout: Duration,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            #[cfg(feature = "http")]
            bind_address: Some((std::net::Ipv4Addr::LOCALHOST, 8080).into()),
            #[cfg(feature = "http")]
            probe_address: None,
            #[cfg(feature = "tls")]
            secure_serving: None,
            explain_changes: false,
            election: None,
            shards: None,
            cache_sync_timeout: Duration::from_secs(120),
            graceful_shutdown_timeout: Duration::from_secs(20),
        }
    }
}

#[cfg(feature = "tls")]
impl ManagerOptions {
    /// Returns the security of the pages. `None` if the pages are disabled or use plain HTTP.
    pub(super) fn secure_pages(&self) -> Option<&SecureServing> {
        self.secure_serving.as_ref().filter(|_| self.bind_address.is_some())
    }
}

/// Configures TLS and authorization for the pages at
/// [`ManagerOptions::bind_address`]. The server supports TLS 1.2 and TLS 1.3.
///
/// ```
/// use kube_operator::{CertificateSource, ManagerOptions, SecureServing};
///
/// let options = ManagerOptions {
///     bind_address: Some(([0, 0, 0, 0], 8443).into()),
///     probe_address: Some(([0, 0, 0, 0], 8081).into()),
///     secure_serving: Some(SecureServing {
///         certificate: CertificateSource::Files {
///             certificate: "/certs/tls.crt".into(),
///             key: "/certs/tls.key".into(),
///         },
///         authorize: true,
///     }),
///     ..ManagerOptions::default()
/// };
/// ```
#[cfg(feature = "tls")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureServing {
    /// The certificate of the server.
    pub certificate: CertificateSource,
    /// Whether the manager rejects requests without the header `Authorization: Bearer TOKEN`.
    ///
    /// If `true`, the manager sends a TokenReview for the token. It then sends a SubjectAccessReview: the
    /// user of the token must be allowed to `get` the path of the request as a nonResourceURL. This
    /// process needs permission to create both reviews, for example with the ClusterRole
    /// `system:auth-delegator`.
    ///
    /// The response is 401 without a valid token, 403 without the permission, and 503 if a review fails.
    /// The manager caches up to 1,024 decisions for 10 s. A revoked token can therefore read pages
    /// for up to 10 s.
    pub authorize: bool,
}

/// Selects the TLS certificate of the pages.
#[cfg(feature = "tls")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// The certificate is in files. [`Manager::new`](crate::Manager::new) loads both files. If a file is
    /// missing or invalid, it returns [`ManagerError::Certificate`](crate::ManagerError::Certificate).
    ///
    /// The manager reloads the files after they change. When a client connects, the manager compares the
    /// modification times of the files, at most once in 10 s. If the new files are invalid, it logs a
    /// warning and serves the old certificate. Existing connections keep their certificate.
    Files {
        /// The PEM file with the certificate chain, for example `tls.crt` in a Secret of cert-manager. The
        /// first certificate of the file is the certificate of the server.
        certificate: PathBuf,
        /// The PEM file with the private key of the certificate, for example `tls.key`.
        key: PathBuf,
    },
    /// The manager creates a self-signed certificate in memory, as controller-runtime does by default. The
    /// certificate contains the names `localhost` and `127.0.0.1`. It is valid for one year, and the manager
    /// replaces it one month earlier.
    ///
    /// The connections are encrypted, but clients cannot verify the server, and must skip the verification
    /// (`insecureSkipVerify` of Prometheus). An attacker between a client and the server can therefore
    /// receive the token of the client. The manager logs a warning when it starts.
    SelfSigned,
}

/// Selects the processes in which a controller or a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// Only the leader runs the controller or task.
    LeaderOnly,
    /// Every process runs the controller or task.
    EveryReplica,
    /// Every process runs the controller, and reconciles only the objects in its slots. See
    /// [`ManagerOptions::shards`]. Without this option, only the leader runs the controller.
    ///
    /// Tasks and [`KeyController`](crate::KeyController)s have no slots. With this value, they run only on
    /// the leader.
    EachShard,
}
