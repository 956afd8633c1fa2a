//! Tokens of a service account that expire after ten minutes: one in a file, one from an exec plugin.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube_client::api::PostParams;
use kube_client::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use kube_client::{Api, Client};
use serde_json::{Value, json};

use crate::load::cluster::RIGHTS;
use crate::load::writer::NAMESPACES;

const NAME: &str = "soak";
/// The shortest time that kube-apiserver permits.
const EXPIRATION_SECONDS: i64 = 600;

/// The files of the present tokens.
pub(super) struct Credentials {
    accounts: Api<ServiceAccount>,
    token: PathBuf,
    exec: PathBuf,
    program: PathBuf,
}

impl Credentials {
    /// Creates a service account that may list and watch, and its first tokens.
    pub(super) async fn create(admin: &Client, folder: &Path, program: PathBuf) -> Result<Self> {
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), NAMESPACES[0]);
        let account = serde_json::from_value(json!({"metadata": {"name": NAME}}))?;
        accounts.create(&PostParams::default(), &account).await?;
        let binding = serde_json::from_value(json!({
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": RIGHTS},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACES[0]}],
        }))?;
        let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
        bindings.create(&PostParams::default(), &binding).await?;
        let credentials =
            Self { accounts, token: folder.join("token"), exec: folder.join("exec.json"), program };
        credentials.rotate().await?;
        Ok(credentials)
    }

    /// Replaces both tokens.
    pub(super) async fn rotate(&self) -> Result<()> {
        let (token, _) = self.request().await?;
        replace(&self.token, &token)?;
        let (token, expiration) = self.request().await?;
        replace(&self.exec, &json!({"token": token, "expirationTimestamp": expiration}).to_string())
    }

    async fn request(&self) -> Result<(String, Value)> {
        let spec =
            TokenRequestSpec { expiration_seconds: Some(EXPIRATION_SECONDS), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let response = self.accounts.create_token_request(NAME, &PostParams::default(), &request).await?;
        let status = response.status.context("a token request without a status")?;
        Ok((status.token.context("a token request without a token")?, json!(status.expiration_timestamp)))
    }

    /// Returns credentials that read the token from its file.
    pub(super) fn of_file(&self) -> AuthInfo {
        AuthInfo { token_file: Some(self.token.display().to_string()), ..AuthInfo::default() }
    }

    /// Returns credentials that run the exec plugin.
    pub(super) fn of_exec_plugin(&self) -> AuthInfo {
        let exec = ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some(self.program.display().to_string()),
            args: Some(vec!["--exec-credential".to_owned(), self.exec.display().to_string()]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        };
        AuthInfo { exec: Some(exec), ..AuthInfo::default() }
    }
}

/// Replaces a file atomically, because a client can read it at any time.
fn replace(path: &Path, contents: &str) -> Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, contents)?;
    std::fs::rename(&new, path).with_context(|| path.display().to_string())
}

/// Returns the output of the exec plugin: the credential in a file.
///
/// # Errors
///
/// Fails if the file cannot be read.
pub fn exec_credential(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let status: Value = serde_json::from_str(&text)?;
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status
    });
    Ok(credential.to_string())
}
