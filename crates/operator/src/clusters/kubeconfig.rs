//! Clients from kubeconfigs, and `KubeconfigProvider`: the clusters of the contexts of a kubeconfig file.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher,
    path::PathBuf,
    time::Duration,
};

use foldhash::quality::RandomState;
use futures_util::{FutureExt, future::BoxFuture};
use kube_client::{
    Client, Config, Error,
    config::{AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig},
};
use tokio_util::sync::CancellationToken;

use super::{
    name::ClusterName,
    provider::{ClusterProvider, ClusterSet},
};
use crate::Failure;

/// The interval in which the provider reads the file.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// Describes why a kubeconfig cannot be used. The messages never contain the contents of the kubeconfig.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterConfigError {
    /// The Secret has no data with the expected key.
    #[error("the Secret has no data {0:?}; store the kubeconfig there, or use `SecretProvider::data_key`")]
    NoData(String),
    /// The kubeconfig cannot be parsed. The error of the parser may contain secrets.
    #[error("the kubeconfig is not valid; write a YAML document of the kind `Config`")]
    Invalid,
    /// The kubeconfig in a Secret refers to a file or a program of this process. Users who can write the
    /// Secret must not be able to read files or to run programs here.
    #[error(
        "the kubeconfig contains `{0}`, which a kubeconfig in a Secret must not use; embed the credentials"
    )]
    LocalReference(&'static str),
    /// The context does not exist, or its cluster or user is missing or incomplete.
    #[error(
        "the context, cluster or user of the kubeconfig is missing or incomplete; complete the kubeconfig"
    )]
    Incomplete(#[source] kube_client::config::KubeconfigError),
    /// The protocol of the proxy is not supported. The error of the client would contain the URL of the
    /// proxy, which can contain a password.
    #[error(
        "the protocol of the `proxy-url` of the kubeconfig is not supported; enable the feature `http-proxy` or `socks5` \
         of kube-client, or use another proxy"
    )]
    Proxy,
    /// The client cannot be created, for example because this program was built without TLS.
    #[error("cannot create a client from the kubeconfig")]
    Client(#[source] kube_client::Error),
}

/// Returns a client for the current context of a kubeconfig from another author.
pub(super) async fn untrusted_client(kubeconfig: &[u8]) -> Result<Client, ClusterConfigError> {
    let text = std::str::from_utf8(kubeconfig).map_err(|_| ClusterConfigError::Invalid)?;
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| ClusterConfigError::Invalid)?;
    if let Some(field) = local_reference(&kubeconfig) {
        return Err(ClusterConfigError::LocalReference(field));
    }
    client(kubeconfig, None).await
}

async fn client(kubeconfig: Kubeconfig, context: Option<String>) -> Result<Client, ClusterConfigError> {
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.map_err(ClusterConfigError::Incomplete)?;
    // The conversion runs an `exec` program, and waits for it.
    let converted = tokio::task::spawn_blocking(|| Client::try_from(config)).await;
    let client = converted.unwrap_or_else(|error| Err(Error::Service(error.into())));
    client.map_err(|error| match error {
        Error::ProxyProtocolDisabled { .. } | Error::ProxyProtocolUnsupported { .. } => {
            ClusterConfigError::Proxy
        }
        error => ClusterConfigError::Client(error),
    })
}

/// Returns the name of a field that refers to a file or a program of this process.
fn local_reference(kubeconfig: &Kubeconfig) -> Option<&'static str> {
    let of_user = |user: &AuthInfo| {
        let fields = [
            ("exec", user.exec.is_some()),
            ("auth-provider", user.auth_provider.is_some()),
            ("tokenFile", user.token_file.is_some()),
            ("client-certificate", user.client_certificate.is_some()),
            ("client-key", user.client_key.is_some()),
        ];
        fields.into_iter().find_map(|(field, is_set)| is_set.then_some(field))
    };
    let of_cluster =
        |cluster: &Cluster| cluster.certificate_authority.as_ref().map(|_| "certificate-authority");
    let users = kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    let clusters = kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
    users.filter_map(of_user).chain(clusters.filter_map(of_cluster)).next()
}

/// Engages a cluster for each context of a kubeconfig file. The name of the cluster is the name of the
/// context, with `:` in place of `/`.
///
/// The provider reads the file every 10 s. It engages new contexts, disengages removed contexts, and engages
/// a context again if its cluster or user has changed. If the file becomes invalid, the clusters remain.
///
/// The provider does not observe files to which the kubeconfig refers. kube-client itself reads a `tokenFile`
/// and runs an `exec` program again.
#[derive(Clone, Debug, Default)]
pub struct KubeconfigProvider {
    path: Option<PathBuf>,
    contexts: Option<BTreeSet<String>>,
}

impl KubeconfigProvider {
    /// Creates a provider of all contexts of the files in the environment variable `KUBECONFIG`, or of
    /// `~/.kube/config`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the path of the file. The default is described at [`new`](Self::new).
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Selects only these contexts.
    pub fn contexts<N: Into<String>>(mut self, contexts: impl IntoIterator<Item = N>) -> Self {
        self.contexts = Some(contexts.into_iter().map(Into::into).collect());
        self
    }

    async fn read(&self) -> Result<Kubeconfig, Failure> {
        let path = self.path.clone();
        let read = move || path.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        Ok(tokio::task::spawn_blocking(read).await??)
    }

    /// Returns the contexts to engage, by the names of their clusters.
    fn selected(&self, kubeconfig: &Kubeconfig) -> BTreeMap<String, (String, Option<Context>)> {
        let of_file = kubeconfig.contexts.iter().map(|known| (known.name.clone(), known.context.clone()));
        let all: BTreeMap<String, Option<Context>> = of_file.collect();
        let selected: Vec<(String, Option<Context>)> = match &self.contexts {
            None => all.into_iter().collect(),
            Some(names) => {
                names.iter().map(|name| (name.clone(), all.get(name).cloned().flatten())).collect()
            }
        };
        selected.into_iter().map(|(name, context)| (name.replace('/', ":"), (name, context))).collect()
    }
}

impl ClusterProvider for KubeconfigProvider {
    fn run(
        self: Box<Self>,
        clusters: ClusterSet,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        async move {
            let (known, skipped) = (BTreeMap::new(), BTreeSet::new());
            let mut contexts = Contexts { clusters, hasher: RandomState::default(), known, skipped };
            contexts.update(&self, &self.read().await?).await;
            contexts.clusters.initialized();
            let mut was_readable = true;
            while stop.run_until_cancelled(tokio::time::sleep(READ_INTERVAL)).await.is_some() {
                match self.read().await {
                    Ok(kubeconfig) => contexts.update(&self, &kubeconfig).await,
                    Err(error) if was_readable => {
                        tracing::warn!(%error, "cannot read the kubeconfig; the clusters remain; retrying");
                        was_readable = false;
                        continue;
                    }
                    Err(_) => continue,
                }
                was_readable = true;
            }
            Ok(())
        }
        .boxed()
    }
}

/// The contexts that a provider has reported.
struct Contexts {
    clusters: ClusterSet,
    hasher: RandomState,
    /// The hash of the context, the cluster and the user of each name.
    known: BTreeMap<ClusterName, u64>,
    /// The logged names of skipped contexts.
    skipped: BTreeSet<String>,
}

impl Contexts {
    async fn update(&mut self, provider: &KubeconfigProvider, kubeconfig: &Kubeconfig) {
        let mut before = std::mem::take(&mut self.known);
        for (name, (context_name, context)) in provider.selected(kubeconfig) {
            let Ok(name) = ClusterName::new(&name) else {
                if self.skipped.insert(context_name.clone()) {
                    tracing::warn!(context = ?context_name, "context is skipped, because a cluster cannot have this name");
                }
                continue;
            };
            let hash = self.hasher.hash_one(parts_json(kubeconfig, context.as_ref()));
            let is_known = before.remove(&name) == Some(hash);
            self.known.insert(name.clone(), hash);
            if is_known {
                continue;
            }
            if context.is_none() {
                // A selected context was removed from the file.
                self.clusters.disengage(&name);
            }
            match client(kubeconfig.clone(), Some(context_name)).await {
                Ok(client) => self.clusters.engage(&name, client),
                Err(error) => self.clusters.reject(&name, Failure::from(error)),
            }
        }
        before.keys().for_each(|name| self.clusters.disengage(name));
    }
}

/// Returns the JSON of a context, its cluster and its user.
fn parts_json(kubeconfig: &Kubeconfig, context: Option<&Context>) -> Option<String> {
    let context = context?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster);
    let user = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
    serde_json::to_string(&(context, cluster, user)).ok()
}
