//! The client of a real cluster. An error contains the problem and its remedy.

use std::{error::Error as StdError, time::Duration};

use anyhow::{anyhow, bail};
use kube_client::{Client, Config, Error, client::AuthError};
use tokio::time::timeout;

use crate::cli::shorten;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for the first response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a client and waits for the first response of the API server.
///
/// # Errors
///
/// Fails if the credentials cannot be loaded, or if the API server does not respond.
///
/// # Cancel safety
///
/// This function is cancel safe.
pub(crate) async fn connect(mut config: Config) -> anyhow::Result<Client> {
    // Informers retry failed requests. Retries in kube-client would hide these failures.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let url = config.cluster_url.clone();
    // kube-client panics if the URL has no scheme or no host.
    if url.scheme().is_none() || url.host().is_none() {
        bail!("the server {url} of the kubeconfig is not a URL; use for example https://127.0.0.1:6443");
    }
    let exec = config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone());
    let client = Client::try_from(config).map_err(|error| match auth_problem(&error, exec.as_deref()) {
        Some(problem) => anyhow!(problem),
        None => anyhow!("the kubeconfig is invalid: {}; correct it", root_cause(&error)),
    })?;
    match timeout(RESPONSE_TIMEOUT, client.apiserver_version()).await {
        Err(_) => {
            bail!("no response from {url} within {RESPONSE_TIMEOUT:?}; check that this is an API server")
        }
        Ok(Ok(_)) => Ok(client),
        Ok(Err(Error::Api(status))) if is_http_on_tls_port(&status.message) => {
            bail!("{url} requires TLS; write https:// instead of http:// in the kubeconfig")
        }
        // If the credentials do not suffice, the first list fails with a better message.
        Ok(Err(Error::Api(status))) if status.code != 404 && !is_html(&status.message) => Ok(client),
        Ok(Err(Error::Api(status))) => bail!(
            "{url} is not an API server: it returned {} {}; correct the server in the kubeconfig",
            status.code,
            shorten(&status.message)
        ),
        Ok(Err(error @ Error::SerdeError(_))) => {
            bail!("{url} is not an API server: {}; correct the server in the kubeconfig", root_cause(&error))
        }
        Ok(Err(error)) => match auth_problem(&error, exec.as_deref()) {
            Some(problem) => bail!(problem),
            None => {
                let cause = root_cause(&error);
                bail!("cannot connect to {url}: {cause}; {}", remedy(&cause))
            }
        },
    }
}

/// Returns the innermost message. Only this message of the HTTP client describes the cause.
fn root_cause(error: &Error) -> String {
    let mut cause: &dyn StdError = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    shorten(&cause.to_string())
}

/// Returns the remedy for a failed connection.
fn remedy(cause: &str) -> &'static str {
    if cause.contains("invalid peer certificate") {
        "check the certificate-authority and the host name of the server in the kubeconfig"
    } else if cause.contains("corrupt message") {
        "the server does not use TLS on this port; correct the port, or write http:// in the kubeconfig"
    } else {
        "check that the cluster runs"
    }
}

/// Go's HTTP server sends this text.
fn is_http_on_tls_port(message: &str) -> bool {
    message.contains("HTTP request to an HTTPS server")
}

fn is_html(message: &str) -> bool {
    message.trim_start().starts_with('<')
}

/// Returns the problem and the remedy if the credentials cannot be loaded. `exec` is the command of the exec
/// plugin. Does not return the output of a plugin, which can contain a token.
fn auth_problem(error: &Error, exec: Option<&str>) -> Option<String> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    let auth = loop {
        let error = cause?;
        if let Some(auth) = error.downcast_ref::<AuthError>() {
            break auth;
        }
        cause = error.source();
    };
    let exec = exec.unwrap_or_default();
    Some(match auth {
        AuthError::AuthExecStart(error) => format!(
            "cannot run the exec plugin {exec:?}: {error}; install it, or correct the command in the kubeconfig"
        ),
        AuthError::AuthExecRun { out, .. } => {
            let printed = shorten(&String::from_utf8_lossy(&out.stderr));
            let printed = if printed.is_empty() { printed } else { format!(": {printed}") };
            format!(
                "the exec plugin {exec:?} failed with {}{printed}; run it to see the cause, for example log in again",
                out.status
            )
        }
        AuthError::ReadTokenFile(error, file) => format!(
            "cannot read the token file {}: {error}; create it, or correct tokenFile in the kubeconfig",
            file.display()
        ),
        other => format!("cannot load the credentials: {other}; correct the user in the kubeconfig"),
    })
}

#[cfg(test)]
mod tests {
    use kube_client::config::{KubeConfigOptions, Kubeconfig};
    use kube_testserver::{Rights, Server};
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// Returns the error for this cluster and this user of a kubeconfig.
    async fn error(cluster: Value, user: Value) -> String {
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        }))
        .unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let error = connect(config).await.err().expect("the connection must fail").to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    }

    fn unreachable() -> Value {
        json!({"server": "http://127.0.0.1:1"})
    }

    #[tokio::test]
    async fn missing_exec_plugin_is_named() {
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "absent-plugin",
            "interactiveMode": "Never"});
        let error = error(unreachable(), json!({"exec": exec})).await;
        assert_eq!(
            error,
            "cannot run the exec plugin \"absent-plugin\": No such file or directory (os error 2); \
             install it, or correct the command in the kubeconfig"
        );
    }

    #[tokio::test]
    async fn failed_exec_plugin_shows_errors_but_no_token() {
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
            "args": ["-c", "echo secret; echo expired >&2; exit 3"], "interactiveMode": "Never"});
        let error = error(unreachable(), json!({"exec": exec})).await;
        assert!(error.starts_with("the exec plugin \"sh\" failed with exit status: 3: expired; "), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[tokio::test]
    async fn missing_token_file_is_named() {
        let error = error(unreachable(), json!({"tokenFile": "/absent/token"})).await;
        assert_eq!(
            error,
            "cannot read the token file /absent/token: No such file or directory (os error 2); \
             create it, or correct tokenFile in the kubeconfig"
        );
    }

    #[tokio::test]
    async fn stopped_cluster_is_reported() {
        let error = error(unreachable(), json!({})).await;
        assert!(error.starts_with("cannot connect to http://127.0.0.1:1/: Connection refused"), "{error}");
        assert!(error.ends_with("; check that the cluster runs"), "{error}");
    }

    #[tokio::test]
    async fn wrong_certificate_authority_is_reported() {
        let [server, other] = [(); 2].map(|()| Server::builder().user("a", "a", Rights::All).build());
        let (server, other) = (
            server.listen_tls(([127, 0, 0, 1], 0).into()).await.unwrap(),
            other.listen_tls(([127, 0, 0, 1], 0).into()).await.unwrap(),
        );
        let other: Value = serde_json::from_str(&other.kubeconfig()).unwrap();
        let authority = &other["clusters"][0]["cluster"]["certificate-authority-data"];
        assert!(authority.is_string());
        let cluster = json!({"server": server.url(), "certificate-authority-data": authority});
        let error = error(cluster, json!({})).await;
        assert!(error.contains("invalid peer certificate"), "{error}");
        assert!(error.ends_with(
            "; check the certificate-authority and the host name of the server in the kubeconfig"
        ));
    }

    #[tokio::test]
    async fn tls_on_plain_port_is_reported() {
        let server = Server::new().listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let cluster = json!({"server": server.url().replace("http:", "https:")});
        let error = error(cluster, json!({})).await;
        assert!(error.contains("; the server does not use TLS on this port; correct the port, "), "{error}");
    }

    /// A server that returns the same response to each request.
    async fn server_of(response: String) -> Value {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                _ = connection.read(&mut [0; 4096]).await;
                _ = connection.write_all(response.as_bytes()).await;
            }
        });
        json!({"server": url})
    }

    #[tokio::test]
    async fn page_of_another_server_is_shortened() {
        let page = "<html>\n<p>a page</p>\n".repeat(100);
        for status in ["200 OK", "404 Not Found", "502 Bad Gateway"] {
            let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}", page.len());
            let error = error(server_of(format!("{head}\r\n\r\n{page}")).await, json!({})).await;
            assert!(error.contains(" is not an API server: "), "{error}");
            assert!(error.ends_with("; correct the server in the kubeconfig"), "{error}");
            assert!(error.len() < 400, "{error}");
        }
    }

    #[tokio::test]
    async fn http_on_tls_port_is_reported() {
        let text = "Client sent an HTTP request to an HTTPS server.\n";
        let head = format!("HTTP/1.0 400 Bad Request\r\ncontent-length: {}", text.len());
        let error = error(server_of(format!("{head}\r\n\r\n{text}")).await, json!({})).await;
        assert!(
            error.ends_with(" requires TLS; write https:// instead of http:// in the kubeconfig"),
            "{error}"
        );
    }
}
