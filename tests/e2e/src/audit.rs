//! The audit log of a server: writes and denied requests, and the user of each request.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::real::Options;

/// The log of a server that was started with its [`options`](Self::options), read as it grows.
#[derive(Debug)]
pub struct AuditLog {
    dir: TempDir,
    file: Option<BufReader<File>>,
    /// The start of an incomplete line.
    line: String,
}

/// A request after its response.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// The verb of the request, for example `patch`.
    pub verb: String,
    impersonated_user: Option<User>,
    /// The object of the request.
    #[serde(default)]
    pub object_ref: ObjectRef,
    response_status: Option<ResponseStatus>,
    /// The body of the request, for example a patch.
    #[serde(default, rename = "requestObject")]
    pub request: Value,
    response_object: Option<Value>,
    /// The time at which the server received the request. The order of two texts is the order of their times.
    #[serde(rename = "requestReceivedTimestamp")]
    pub received: String,
    /// The time at which the server sent the response.
    #[serde(rename = "stageTimestamp")]
    pub completed: String,
}

/// The object of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObjectRef {
    /// The plural name of the resource.
    pub resource: String,
    /// Empty for a cluster-scoped resource.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
}

#[derive(Clone, Debug, Deserialize)]
struct User {
    username: String,
}

#[derive(Clone, Debug, Deserialize)]
struct ResponseStatus {
    code: u16,
    message: Option<String>,
}

impl AuditEvent {
    /// Returns the impersonated user that sent the request, or `None` if it impersonated no user.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.impersonated_user.as_ref().map(|user| &*user.username)
    }

    /// Returns the message of the server if it has denied the request, because the user lacks a permission.
    #[must_use]
    pub fn denial(&self) -> Option<&str> {
        let status = self.response_status.as_ref().filter(|status| status.code == 403)?;
        Some(status.message.as_deref().unwrap_or_default())
    }

    /// Returns whether the write may have been applied although the request failed: the server has an
    /// internal error, or the client has closed the connection.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        self.response_status.as_ref().is_none_or(|status| status.code >= 500)
    }

    /// Returns the object in the response and its version. Returns `None` if the request failed, or if the
    /// response contains no object.
    #[must_use]
    pub fn written(&self) -> Option<(&Value, u64)> {
        let is_success =
            self.response_status.as_ref().is_some_and(|status| (200..300).contains(&status.code));
        let object = self.response_object.as_ref().filter(|_| is_success)?;
        Some((object, object["metadata"]["resourceVersion"].as_str()?.parse().ok()?))
    }
}

impl AuditLog {
    /// Creates the log of writes of these resources: pairs of an API group and its resources.
    ///
    /// # Errors
    ///
    /// Fails if the policy cannot be written.
    pub fn new(resources: &[(&str, &[&str])]) -> Result<Self> {
        let resources: Vec<Value> = resources
            .iter()
            .map(|(group, resources)| json!({"group": group, "resources": resources}))
            .collect();
        let verbs = ["create", "update", "patch", "delete"];
        Self::with_rule(&json!({"level": "RequestResponse", "verbs": verbs, "resources": resources}))
    }

    /// Creates the log of all requests, without their bodies.
    ///
    /// # Errors
    ///
    /// Fails if the policy cannot be written.
    pub fn of_all_requests() -> Result<Self> {
        Self::with_rule(&json!({"level": "Metadata"}))
    }

    fn with_rule(rule: &Value) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "omitManagedFields": true,
            "rules": [rule],
        });
        std::fs::write(dir.path().join("policy"), policy.to_string())?;
        Ok(Self { dir, file: None, line: String::new() })
    }

    /// Returns the path of the log.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Returns options of a server that logs each request before the response. The log is not rotated.
    #[must_use]
    pub fn options(&self) -> Options {
        let policy = self.dir.path().join("policy");
        let apiserver_flags = vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", self.path().display()),
            "--audit-log-mode=blocking-strict".to_owned(),
            "--audit-log-maxsize=100000".to_owned(),
        ];
        Options { apiserver_flags }
    }

    /// Reads the new lines.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read, or has an unknown format.
    pub fn read(&mut self) -> Result<Vec<AuditEvent>> {
        if self.file.is_none() && self.path().exists() {
            self.file = Some(BufReader::new(File::open(self.path())?));
        }
        let mut events = Vec::new();
        let Some(file) = &mut self.file else { return Ok(events) };
        while file.read_line(&mut self.line)? > 0 && self.line.ends_with('\n') {
            let line = std::mem::take(&mut self.line);
            events.push(serde_json::from_str(&line).context("an audit log of another format")?);
        }
        Ok(events)
    }
}
