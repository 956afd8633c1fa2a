//! The program `kubectl-informer`, and the objects of a test server from which it reads.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use kube_testserver::Server;
use serde_json::{Value, json};

/// Returns the path of the program `kubectl-informer`.
///
/// # Errors
///
/// Fails if the program does not exist.
pub(crate) fn cost_program(chosen: Option<&Path>) -> Result<PathBuf> {
    let program = match chosen {
        Some(program) => program.to_owned(),
        None => std::env::current_exe()?.with_file_name("kubectl-informer"),
    };
    ensure!(
        program.is_file(),
        "{} does not exist; build the package kubectl-informer with the same profile",
        program.display()
    );
    Ok(program)
}

/// Creates or replaces an object with its status, and returns the stored object. Creates its namespace if it
/// does not exist.
pub(crate) fn create(server: &Server, object: &Value) -> Result<Value> {
    if let Some(name) = object["metadata"]["namespace"].as_str() {
        // The namespace may exist.
        let _ = server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }
    let mut object = object.clone();
    // The server assigns another uid. A uid in an object that replaces it would be a precondition.
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("uid");
    }
    let created = server.create_or_replace(&object);
    created.with_context(|| format!("cannot write an object of the kind {}", object["kind"]))
}
