//! `Session`: a client of the chosen cluster.

use kube_client::{
    Client, Config,
    client::ConfigExt as _,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tower::Layer as _;

use crate::{demo::Demo, error::CliError, flags::ConnectionFlags};

/// A client of the cluster that the user chose, or of the demo server.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// A client that does not repeat requests. The other client repeats requests with the status codes 429,
    /// 503 and 504 for more than a minute.
    pub(crate) direct_client: Client,
    /// The namespace of the context.
    pub(crate) namespace: String,
    /// A name of the cluster for messages, for example `context kind-a`.
    pub(crate) target: String,
    /// The server of `--demo`.
    pub(crate) demo: Option<Demo>,
}

impl Session {
    /// Connects to the cluster of the flags. Sends no request.
    ///
    /// # Errors
    ///
    /// Fails if the kubeconfig cannot be used. Also fails without a kubeconfig outside of a Pod.
    pub(crate) async fn open(flags: &ConnectionFlags) -> Result<Self, CliError> {
        let (config, target, demo) = if flags.demo {
            let demo = Demo::start().await?;
            (demo.config().await?, "the demo server".to_owned(), Some(demo))
        } else {
            let (config, target) = chosen_config(flags).await?;
            (config, target, None)
        };
        let config = impersonating(config, flags);
        let namespace = config.default_namespace.clone();
        let (client, direct_client) = new_clients(config, "create a client").await?;
        Ok(Self { client, direct_client, namespace, target, demo })
    }

    /// Stops the demo server, if there is a demo server.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the tasks of the demo server stop later.
    pub(crate) async fn close(self) {
        if let Some(demo) = self.demo {
            demo.stop().await;
        }
    }
}

/// Returns the configuration of the kubeconfig. Without a kubeconfig, returns the configuration of the Pod in
/// which the program runs, like kubectl.
///
/// # Errors
///
/// Fails if the kubeconfig cannot be used. Also fails without a kubeconfig outside of a Pod.
pub(crate) async fn chosen_config(flags: &ConnectionFlags) -> Result<(Config, String), CliError> {
    let invalid = |source| CliError::Kubeconfig { file: flags.kubeconfig.clone(), source: Box::new(source) };
    let kubeconfig = match &flags.kubeconfig {
        Some(file) => Kubeconfig::read_from(file).map_err(invalid)?,
        None if is_kubeconfig_missing() => {
            let config =
                Config::incluster().map_err(|source| CliError::NoCluster { source: Box::new(source) })?;
            return Ok((config, "the cluster of this Pod".to_owned()));
        }
        None => kubeconfig_of_environment().map_err(invalid)?,
    };
    if let Some(user) = &flags.user
        && !kubeconfig.auth_infos.iter().any(|known| known.name == *user)
    {
        // kube-client would send requests without credentials.
        let problem =
            format!("the kubeconfig has no user {user:?}; `kubectl config get-users` lists the users");
        return Err(CliError::Usage(problem));
    }
    let options = KubeConfigOptions {
        context: flags.context.clone(),
        cluster: flags.cluster.clone(),
        user: flags.user.clone(),
    };
    let context = options.context.clone().or_else(|| kubeconfig.current_context.clone());
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(invalid)?;
    let target = match context {
        Some(context) => format!("context {context}"),
        None => format!("{}", config.cluster_url),
    };
    Ok((config, target))
}

/// Creates a client that repeats requests, and a client that does not. Creates them on another thread,
/// because the exec plugin of a kubeconfig blocks its thread. `operation` completes the sentence "failed to
/// …".
///
/// # Errors
///
/// Fails if the configuration is invalid, or if the plugin fails.
///
/// # Cancel safety
///
/// If the future is dropped, the plugin continues to run.
pub(crate) async fn new_clients(config: Config, operation: &str) -> Result<(Client, Client), CliError> {
    let clients = tokio::task::spawn_blocking(|| clients(config)).await;
    let clients = clients.map_err(|panicked| CliError::Command(Box::new(panicked)))?;
    clients.map_err(|error| CliError::request(operation, error))
}

/// Creates both clients with the same credentials. kube-client runs the exec plugin for each
/// authentication layer, each TLS configuration and each expiry of a certificate. Without the plugin in the
/// configuration, only the first of them runs it. A plugin that returns a certificate still runs each time.
fn clients(mut config: Config) -> Result<(Client, Client), kube_client::Error> {
    let auth = config.auth_layer()?;
    if auth.is_some() {
        let user = &mut config.auth_info;
        (user.exec, user.auth_provider, user.token, user.token_file) = (None, None, None, None);
        (user.username, user.password) = (None, None);
    }
    let mut client = |default_retry| {
        config.default_retry = default_retry;
        let client = Client::try_from(config.clone())?;
        let Some(auth) = &auth else { return Ok::<_, kube_client::Error>(client) };
        let service = tower::service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await.map_err(tower::BoxError::from) }
        });
        Ok(Client::new(auth.layer(service), config.default_namespace.clone()))
    };
    Ok((client(true)?, client(false)?))
}

/// Returns the kubeconfig of `$KUBECONFIG`, or `~/.kube/config`. Like kubectl, ignores a missing file of
/// `$KUBECONFIG` if another file exists.
fn kubeconfig_of_environment() -> Result<Kubeconfig, KubeconfigError> {
    let files = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let mut existing = std::env::split_paths(&files).filter(|file| file.exists()).peekable();
    if existing.peek().is_none() {
        return Kubeconfig::read();
    }
    existing.try_fold(Kubeconfig::default(), |merged, file| merged.merge(Kubeconfig::read_from(file)?))
}

/// Returns whether neither `$KUBECONFIG` nor `~/.kube/config` exists.
fn is_kubeconfig_missing() -> bool {
    let is_set = std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty());
    let home = std::env::home_dir().map(|home| home.join(".kube").join("config"));
    !is_set && !home.is_some_and(|file| file.exists())
}

fn impersonating(mut config: Config, flags: &ConnectionFlags) -> Config {
    if flags.as_user.is_some() {
        config.auth_info.impersonate.clone_from(&flags.as_user);
        config.auth_info.impersonate_groups =
            Some(flags.as_groups.clone()).filter(|groups| !groups.is_empty());
    }
    config
}
