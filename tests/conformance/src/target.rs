//! The server that is checked: how to reach it as different users, and a stretch of its history that it
//! has forgotten.

use anyhow::{Context as _, Result};
use kube_client::Client;
use serde_json::json;

use super::differences::Differences;
use super::raw::Api;
use super::values::{names, version};
use super::variant::Variant;

/// A server under test.
pub struct Target {
    pub(super) name: &'static str,
    pub(super) variant: Variant,
    pub(super) admin: Api,
    pub(super) nobody: Api,
    pub(super) stranger: Api,
    pub(super) past: Past,
    pub(super) differences: Differences,
}

/// Clients of one server. They must not retry requests, because a check needs the first response.
pub struct Clients {
    /// May do everything.
    pub admin: Client,
    /// A known user without permissions.
    pub nobody: Client,
    /// Has a token that the server never issued.
    pub stranger: Client,
}

impl Target {
    /// The server `name`, which has forgotten `past` since it was written.
    #[must_use]
    pub fn new(name: &'static str, clients: Clients, past: Past) -> Self {
        let Clients { admin, nobody, stranger } = clients;
        let variant = Variant::Standard;
        Self {
            name,
            variant,
            admin: Api::new(admin),
            nobody: Api::new(nobody),
            stranger: Api::new(stranger),
            past,
            differences: Differences::default(),
        }
    }

    /// Declares that the server runs as `variant`.
    #[must_use]
    pub fn set_up_as(self, variant: Variant) -> Self {
        Self { variant, ..self }
    }

    /// Expects that exactly these checks fail, because the server has another version.
    #[must_use]
    pub fn with_differences(self, differences: Differences) -> Self {
        Self { differences, ..self }
    }
}

/// The requests before the server compacted its history: `a` to `e` were created, a list with two
/// objects per page stopped after `b`, and then `c` was deleted, `cc` created and `d` changed.
pub struct Past {
    /// The path of the objects.
    pub(super) path: String,
    /// A version at which `a` to `e` existed.
    pub(super) version: String,
    /// A continue token after `b`, at that version.
    pub(super) token: String,
}

impl Past {
    /// Writes the history. The caller then compacts the history of the server before it creates a
    /// [`Target`].
    ///
    /// # Errors
    ///
    /// Fails if the server rejects a request.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a part of the history may be written.
    pub async fn write(admin: &Client) -> Result<Self> {
        let api = Api::new(admin.clone());
        api.post("/api/v1/namespaces", &json!({"metadata": {"name": "past"}})).await?.expect(201)?;
        let path = "/api/v1/namespaces/past/configmaps".to_owned();
        for name in ["a", "b", "c", "d", "e"] {
            api.post(&path, &json!({"metadata": {"name": name}})).await?.expect(201)?;
        }
        let page = api.get(&format!("{path}?limit=2")).await?.ok()?;
        anyhow::ensure!(names(&page) == ["a", "b"], "not a page of two: {page}");
        let token = page["metadata"]["continue"].as_str().context("no continue token")?.to_owned();
        let version = version(&page)?.to_string();

        api.delete(&format!("{path}/c")).await?.ok()?;
        api.post(&path, &json!({"metadata": {"name": "cc"}})).await?.expect(201)?;
        api.patch(&format!("{path}/d"), &json!({"data": {"k": "1"}})).await?.ok()?;
        Ok(Self { path, version, token })
    }
}
