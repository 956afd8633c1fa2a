//! `SecretProvider`: the clusters of Secrets that contain kubeconfigs.

use std::{collections::BTreeMap, hash::BuildHasher, time::Duration};

use foldhash::quality::RandomState;
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use k8s_openapi::api::core::v1::Secret;
use kube_informer::{Informer, ObjectKey};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    kubeconfig::{ClusterConfigError, untrusted_client},
    name::ClusterName,
    provider::{ClusterEngager, ClusterProvider},
};
use crate::Failure;

/// The timeout of one wait for the cache of the Secrets.
const SYNC_TIMEOUT: Duration = Duration::from_secs(60);

/// The delay between two waits. A wait returns early if the server rejects the list.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The key of the kubeconfig in the data of a Secret, as in multicluster-runtime.
const DATA_KEY: &str = "kubeconfig";

/// Engages a cluster for each Secret of an informer. If the informer selects one namespace, the name of the
/// cluster is the name of the Secret. Otherwise, it is `NAMESPACE.NAME`.
///
/// The provider engages a cluster again if its kubeconfig changes, and disengages it if the Secret is
/// deleted. If a kubeconfig is invalid, the provider reports the problem, and an engaged cluster remains
/// engaged.
///
/// A kubeconfig must contain its credentials. The provider rejects `exec`, `auth-provider`, `tokenFile` and
/// paths of certificates, because the authors of the Secrets could otherwise access files and programs of
/// this process.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Secret;
/// # use kube_operator::{Manager, SecretProvider};
/// # fn example(manager: &mut Manager) -> Result<(), Box<dyn std::error::Error>> {
/// let selection = manager.factory().select::<Secret>().namespace("fleet").labels("example.com/cluster=true");
/// let clusters = manager.clusters(SecretProvider::new(&selection.informer()?));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SecretProvider {
    secrets: Informer<Secret>,
    data_key: String,
}

impl SecretProvider {
    /// Creates a provider. The kubeconfigs are in the data with the key `kubeconfig`.
    pub fn new(secrets: &Informer<Secret>) -> Self {
        Self { secrets: secrets.clone(), data_key: DATA_KEY.to_owned() }
    }

    /// Sets the key of the kubeconfig in the data. For example, Cluster API uses `value`.
    pub fn data_key(mut self, key: impl Into<String>) -> Self {
        self.data_key = key.into();
        self
    }
}

impl std::fmt::Debug for SecretProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretProvider").field("data_key", &self.data_key).finish_non_exhaustive()
    }
}

impl ClusterProvider for SecretProvider {
    fn run(
        self: Box<Self>,
        clusters: ClusterEngager,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        let Self { secrets, data_key } = *self;
        if secrets.shard().is_some() {
            let error = "the informer of SecretProvider caches only the slots of this process; use `Selection::all_slots`";
            return std::future::ready(Err(Failure::from(error))).boxed();
        }
        let run = async move {
            let mut events = secrets.events();
            secrets.start();
            while secrets.wait_for_sync(SYNC_TIMEOUT).await.is_err() && !secrets.is_stopped() {
                sleep(RETRY_INTERVAL).await;
            }
            let lister = secrets.lister();
            let has_one_namespace = secrets.namespace().is_some();
            let mut known = Secrets {
                clusters,
                data_key,
                has_one_namespace,
                hasher: RandomState::default(),
                known: BTreeMap::new(),
            };
            for key in lister.keys() {
                known.update(&key, lister.get_by_key(&key).as_deref()).await;
            }
            known.clusters.initialized();
            while let Some(event) = events.next().await {
                // The latest state counts, so a missed event does not matter.
                let key = event.key();
                known.update(key, lister.get_by_key(key).as_deref()).await;
            }
        };
        async move {
            stop.run_until_cancelled(run).await;
            Ok(())
        }
        .boxed()
    }
}

/// The Secrets that a provider has reported.
struct Secrets {
    clusters: ClusterEngager,
    data_key: String,
    has_one_namespace: bool,
    hasher: RandomState,
    /// The hash of the kubeconfig of each cluster.
    known: BTreeMap<ClusterName, u64>,
}

impl Secrets {
    async fn update(&mut self, key: &ObjectKey, secret: Option<&Secret>) {
        let Some(name) = self.cluster_name(key) else { return };
        let Some(secret) = secret.filter(|secret| secret.metadata.deletion_timestamp.is_none()) else {
            if self.known.remove(&name).is_some() {
                self.clusters.disengage(&name);
            }
            return;
        };
        let data = secret.data.as_ref().and_then(|data| data.get(&self.data_key)).map(|data| &*data.0);
        let hash = self.hasher.hash_one(data);
        if self.known.insert(name.clone(), hash) == Some(hash) {
            return;
        }
        let client = match data {
            Some(kubeconfig) => untrusted_client(kubeconfig).await,
            None => Err(ClusterConfigError::NoData(self.data_key.clone())),
        };
        match client {
            Ok(client) => self.clusters.engage(&name, client),
            Err(error) => self.clusters.reject(&name, format!("Secret {key}: {}", Failure::from(error))),
        }
    }

    fn cluster_name(&self, key: &ObjectKey) -> Option<ClusterName> {
        let namespace = key.namespace().filter(|_| !self.has_one_namespace);
        let name = namespace
            .map_or_else(|| key.name().to_owned(), |namespace| format!("{namespace}.{}", key.name()));
        // The names of Secrets are valid. A longer name than 253 bytes has a long namespace.
        ClusterName::new(name).map_err(|error| tracing::warn!(%error, "Secret is skipped")).ok()
    }
}
