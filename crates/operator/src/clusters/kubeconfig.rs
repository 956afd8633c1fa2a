//! Clients from kubeconfigs, and `KubeconfigProvider`: the clusters of the contexts of a kubeconfig file.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher,
    path::PathBuf,
    thread,
    time::Duration,
};

use foldhash::quality::RandomState;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use kube_client::{
    Client, Config, Error,
    config::{AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig},
};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    name::ClusterName,
    provider::{ClusterEngager, ClusterProvider},
};
use crate::Failure;

/// The interval in which the provider reads the file.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// The maximum time of the program of a context.
const EXEC_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of contexts that are converted to clients at the same time.
const MAX_CONCURRENT_CONVERSIONS: usize = 16;

/// Describes why a kubeconfig cannot be used. The messages never contain the contents of the kubeconfig.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterConfigError {
    /// The Secret has no data with the expected key.
    #[error("the Secret has no data key {0:?}; store the kubeconfig there or set `SecretProvider::data_key`")]
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
    /// The `exec` or `auth-provider` program of the user of a context hangs. kube-client cannot stop it.
    #[error(
        "the program of the context did not exit within {} s; run the program of `exec` or `auth-provider` to find the \
         cause, and change the context in the file; the provider retries only after a change", EXEC_TIMEOUT.as_secs()
    )]
    ExecTimeout,
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
    // Both can run a program.
    let client = if config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some() {
        let converted = timeout(EXEC_TIMEOUT, convert_in_thread(config)).await;
        converted.map_err(|_| ClusterConfigError::ExecTimeout)?
    } else {
        // Reads files.
        let converted = tokio::task::spawn_blocking(|| Client::try_from(config)).await;
        converted.unwrap_or_else(|error| Err(Error::Service(error.into())))
    };
    client.map_err(|error| match error {
        Error::ProxyProtocolDisabled { .. } | Error::ProxyProtocolUnsupported { .. } => {
            ClusterConfigError::Proxy
        }
        error => ClusterConfigError::Client(error),
    })
}

/// Runs the program of a configuration, and waits for it. If the future is dropped, the thread and
/// the program continue. The end of a tokio runtime would wait for a thread of its pool, so this is another
/// thread.
async fn convert_in_thread(config: Config) -> Result<Client, Error> {
    let (sender, converted) = oneshot::channel();
    let runtime = Handle::current();
    let convert = move || {
        let _entered = runtime.enter();
        // The receiver no longer exists after a timeout.
        let _received = sender.send(Client::try_from(config));
    };
    let thread = thread::Builder::new().name("kubeconfig exec".to_owned()).spawn(convert);
    thread.map_err(|error| Error::Service(error.into()))?;
    converted.await.unwrap_or_else(|error| Err(Error::Service(error.into())))
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
/// context, with `:` in place of `/`. If two contexts have the same cluster name, the provider uses the
/// context whose name sorts first, and logs a warning.
///
/// The provider reads the file every 10 s. It engages new contexts, disengages removed contexts, and engages
/// a context again if its cluster or user has changed. If the file becomes invalid, the clusters remain.
///
/// The provider does not observe files to which the kubeconfig refers. kube-client itself reads a `tokenFile`
/// and runs an `exec` program again.
///
/// The provider creates the clients of up to 16 contexts at the same time. If the `exec` or `auth-provider`
/// program of a context does not exit within 30 s, only this context fails. The program is not killed,
/// because kube-client provides no access to it. The program continues, and keeps a thread until it exits, or
/// until this process exits. The provider tries a failed context again when the context, its cluster or its
/// user changes in the file.
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

    /// Selects only these contexts. If the file lacks one of them, its cluster is `failing`, until the file
    /// contains it.
    pub fn contexts<N: Into<String>>(mut self, contexts: impl IntoIterator<Item = N>) -> Self {
        self.contexts = Some(contexts.into_iter().map(Into::into).collect());
        self
    }

    async fn read(&self) -> Result<Kubeconfig, Failure> {
        let path = self.path.clone();
        let read = move || path.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        Ok(tokio::task::spawn_blocking(read).await??)
    }

    /// Reads the file until the future is dropped, or the first read fails.
    async fn follow(&self, clusters: ClusterEngager) -> Result<(), Failure> {
        let (known, skipped) = (BTreeMap::new(), BTreeSet::new());
        let mut contexts = Contexts { clusters, hasher: RandomState::default(), known, skipped };
        contexts.update(self, &self.read().await?).await;
        contexts.clusters.initialized();
        let mut was_readable = true;
        loop {
            sleep(READ_INTERVAL).await;
            match self.read().await {
                Ok(kubeconfig) => {
                    contexts.update(self, &kubeconfig).await;
                    was_readable = true;
                }
                Err(error) if was_readable => {
                    tracing::warn!(%error, "cannot read the kubeconfig; the clusters remain; retrying");
                    was_readable = false;
                }
                Err(_) => {}
            }
        }
    }

    /// Returns the names of the contexts to engage, and the contexts. The names are sorted.
    fn selected(&self, kubeconfig: &Kubeconfig) -> Vec<(String, Option<Context>)> {
        let of_file = kubeconfig.contexts.iter().map(|known| (known.name.clone(), known.context.clone()));
        let all: BTreeMap<String, Option<Context>> = of_file.collect();
        match &self.contexts {
            None => all.into_iter().collect(),
            Some(names) => {
                names.iter().map(|name| (name.clone(), all.get(name).cloned().flatten())).collect()
            }
        }
    }
}

impl ClusterProvider for KubeconfigProvider {
    fn run(
        self: Box<Self>,
        clusters: ClusterEngager,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        async move { stop.run_until_cancelled(self.follow(clusters)).await.unwrap_or(Ok(())) }.boxed()
    }
}

/// The contexts that a provider has reported.
struct Contexts {
    clusters: ClusterEngager,
    hasher: RandomState,
    /// The hash of the context, the cluster and the user of each name.
    known: BTreeMap<ClusterName, u64>,
    /// The logged names of skipped contexts.
    skipped: BTreeSet<String>,
}

impl Contexts {
    /// Logs once that a context is skipped.
    fn skip(&mut self, context: String, reason: &'static str) {
        if !self.skipped.contains(&context) {
            tracing::warn!(?context, reason, "context is skipped");
            self.skipped.insert(context);
        }
    }

    async fn update(&mut self, provider: &KubeconfigProvider, kubeconfig: &Kubeconfig) {
        let (mut before, mut changed) = (std::mem::take(&mut self.known), Vec::new());
        for (context_name, context) in provider.selected(kubeconfig) {
            let Ok(name) = ClusterName::new(context_name.replace('/', ":")) else {
                self.skip(context_name, "a cluster cannot have this name");
                continue;
            };
            if self.known.contains_key(&name) {
                self.skip(context_name, "another context has the same cluster name");
                continue;
            }
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
            changed.push((name, context_name));
        }
        before.keys().for_each(|name| self.clusters.disengage(name));
        // A program that hangs delays only its own context.
        let connect =
            async |(name, context): (ClusterName, String)| match client(kubeconfig.clone(), Some(context))
                .await
            {
                Ok(client) => self.clusters.engage(&name, client),
                Err(error) => self.clusters.reject(&name, Failure::from(error)),
            };
        stream::iter(changed).for_each_concurrent(MAX_CONCURRENT_CONVERSIONS, connect).await;
    }
}

/// Returns the JSON of a context, its cluster and its user.
fn parts_json(kubeconfig: &Kubeconfig, context: Option<&Context>) -> Option<String> {
    let context = context?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster);
    let user = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
    serde_json::to_string(&(context, cluster, user)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn program_that_hangs_is_reported_after_the_limit() {
        let exec =
            json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["20"]});
        let provider = json!({"name": "gcp", "config": {"cmd-path": "sleep", "cmd-args": "20"}});
        for user in [json!({"exec": exec}), json!({"auth-provider": provider})] {
            let kubeconfig = json!({
                "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "a", "user": user}],
            });
            let started = tokio::time::Instant::now();
            let error = client(serde_json::from_value(kubeconfig).unwrap(), None).await.err().unwrap();
            assert!(matches!(error, ClusterConfigError::ExecTimeout), "{error}");
            assert_eq!(started.elapsed(), EXEC_TIMEOUT);
        }
    }
}
