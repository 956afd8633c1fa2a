//! The flags that select a program, and their sources.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::Args;
use http::{HeaderValue, Uri, uri::Scheme};
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Api, Config, config::AuthInfo};

use super::source::{Source, Transport};
use crate::{
    connection::{Session, chosen_config, new_clients},
    error::CliError,
    flags::{ConnectionFlags, duration},
};

/// Selects a program and the access to its pages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Program")]
pub(super) struct AddressFlags {
    /// Read the pages at this URL, for example http://127.0.0.1:8080.
    #[arg(long, value_name = "URL", conflicts_with_all = ["pod", "deploy", "demo"])]
    pub(super) url: Option<Uri>,
    /// Read the pages of this Pod through a port-forward.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["deploy", "demo"])]
    pub(super) pod: Option<String>,
    /// Read the pages of the leader of this Deployment. Without a leader, read the pages of all its Pods.
    #[arg(long, value_name = "NAME", conflicts_with = "demo")]
    pub(super) deploy: Option<String>,
    /// The namespace of the Pod or of the Deployment. The default is the namespace of the context.
    #[arg(short, long, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// The port of the debug pages in the Pod, as in ManagerOptions::bind_address.
    #[arg(long, default_value_t = 8080, value_name = "PORT")]
    port: u16,
    /// Read all Pods of the Deployment, even if one of them is the leader.
    #[arg(long, requires = "deploy")]
    pub(super) all_pods: bool,
    /// The maximum time to wait for one page.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    timeout: Duration,
    /// Send this token. Other users of this machine can see it in the list of processes.
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["token_file", "kubeconfig_token"])]
    token: Option<String>,
    /// Send the token in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig_token")]
    token_file: Option<PathBuf>,
    /// Send the token of the kubeconfig to the URL.
    #[arg(long, requires = "url")]
    kubeconfig_token: bool,
    /// Accept the certificates in this PEM file.
    #[arg(long, value_name = "FILE", requires = "url")]
    certificate_authority: Option<PathBuf>,
    /// Do not verify the certificate of the program. An attacker between this machine and the program can
    /// then read the token.
    #[arg(long, requires = "url", conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: bool,
}

impl AddressFlags {
    /// Returns the source of `--url`.
    ///
    /// # Errors
    ///
    /// Fails if the URL is invalid, if a file cannot be read, or if a token would be sent without encryption.
    pub(super) async fn url_source(
        &self,
        url: &Uri,
        connection: &ConnectionFlags,
    ) -> Result<Source, CliError> {
        let shown = without_user_info(url);
        let usage = |text: &str| CliError::Usage(format!("--url {shown}: {text}"));
        let host = url.host().ok_or_else(|| usage("use a URL such as http://127.0.0.1:8080"))?;
        let is_encrypted = url.scheme() == Some(&Scheme::HTTPS);
        if !is_encrypted && url.scheme() != Some(&Scheme::HTTP) {
            return Err(usage("use the scheme http or https"));
        }
        let sends_token = self.token.is_some() || self.token_file.is_some() || self.kubeconfig_token;
        if sends_token && !is_encrypted && !is_loopback(host) {
            return Err(usage("a token is sent only to https or to a loopback address"));
        }
        let mut config = Config::new(url.clone());
        config.accept_invalid_certs = self.insecure_skip_tls_verify;
        config.root_cert_file.clone_from(&self.certificate_authority);
        if self.kubeconfig_token {
            let AuthInfo { token, token_file, exec, auth_provider, .. } =
                chosen_config(connection).await?.0.auth_info;
            config.auth_info = AuthInfo { token, token_file, exec, auth_provider, ..AuthInfo::default() };
        }
        let (_, client) = new_clients(config, &format!("create a client for {shown}")).await?;
        self.source(Transport::Url(client), shown)
    }

    /// Returns the source of a Pod.
    ///
    /// # Errors
    ///
    /// Fails if the file with the token cannot be read.
    pub(super) fn pod_source(&self, session: &Session, name: &str) -> Result<Source, CliError> {
        let namespace = self.namespace(session);
        let pods: Box<Api<Pod>> = Box::new(Api::namespaced(session.client.clone(), namespace));
        let program = format!("pod {namespace}/{name}");
        self.source(Transport::Pod { pods, name: name.to_owned(), port: self.port }, program)
    }

    /// Returns the namespace of the flags or of the context.
    pub(super) fn namespace<'a>(&'a self, session: &'a Session) -> &'a str {
        self.namespace.as_deref().unwrap_or(&session.namespace)
    }

    fn source(&self, transport: Transport, program: String) -> Result<Source, CliError> {
        let token = match &self.token_file {
            Some(file) => Some(std::fs::read_to_string(file).map_err(|source| CliError::File {
                operation: "read the token file",
                file: file.clone(),
                source,
            })?),
            None => self.token.clone(),
        };
        let header = |token: String| HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let mut authorization = token.map(header).transpose().map_err(|_| {
            CliError::Usage("the token contains characters that a header cannot contain".to_owned())
        })?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        Ok(Source { transport, program, authorization, timeout: self.timeout })
    }
}

/// Returns the URL for messages, without the user and the password.
fn without_user_info(url: &Uri) -> String {
    let text = url.to_string();
    let text = text.trim_end_matches('/');
    let authority = url.authority().map_or("", |authority| authority.as_str());
    match authority.rsplit_once('@') {
        Some((_, host)) => text.replacen(authority, host, 1),
        None => text.to_owned(),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_url_has_no_password() {
        for (url, expected) in [
            ("http://user:secret@host:8080/a", "http://host:8080/a"),
            ("http://host/", "http://host"),
            ("https://a@b:c@[::1]:1/", "https://[::1]:1"),
        ] {
            // A URL that the flag rejects is not displayed.
            let Ok(url) = url.parse() else { continue };
            assert_eq!(without_user_info(&url), expected);
        }
    }

    #[test]
    fn loopback_hosts_are_recognised() {
        for (host, expected) in
            [("127.0.0.1", true), ("[::1]", true), ("localhost", true), ("10.0.0.1", false), ("web", false)]
        {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }
}
