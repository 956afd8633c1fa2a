//! The objects of files.

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::CustomResourceExt;
use kube_testserver::{LoadError, Server};

use crate::Site;

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
}

const SITES: &str = "# The site and its settings.
---
apiVersion: example.com/v1
kind: Site
metadata: {name: home, namespace: shop}
spec: {text: hi, replicas: 3}
status: {ready: true}
---
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: settings, namespace: shop}
  data: {colour: blue}
- {apiVersion: v1, kind: Namespace, metadata: {name: ops}}
";

#[test]
fn folder_is_loaded_with_crds_and_namespaces_first() {
    let folder = tempfile::tempdir().unwrap();
    let crd = serde_json::to_string_pretty(&Site::crd()).unwrap();
    let shop = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n";
    write(
        folder.path(),
        &[("a.yaml", SITES), ("b.yml", shop), ("c.json", &crd), ("d.txt", "{"), ("e.yaml", "")],
    );
    fs::create_dir(folder.path().join("f.yaml")).unwrap();
    let server = Server::new();
    let stored = server.load_yaml(folder.path()).unwrap();
    let kinds: Vec<_> = stored.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["CustomResourceDefinition", "Namespace", "Namespace", "Site", "ConfigMap"]);
    let site = server.get::<Site>(Some("shop"), "home").unwrap();
    assert_eq!((site.spec.replicas, site.status.unwrap().ready), (Some(3), true));
    assert!(server.get::<ConfigMap>(Some("shop"), "settings").is_ok());
    assert!(server.get::<Namespace>(None, "ops").is_ok());
    let again = server.load_yaml(folder.path()).unwrap();
    assert_eq!(again[3]["metadata"]["uid"], stored[3]["metadata"]["uid"]);
}

#[test]
fn error_names_the_file_the_document_and_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let server = Server::new();
    let load = |text: &str| {
        fs::write(&file, text).unwrap();
        server.load_yaml(&file).unwrap_err()
    };
    let shown = file.display();
    assert_eq!(
        load(SITES).to_string(),
        format!(
            "{shown}: document 1: the server rejects Site home: 404: the server does not serve the kind \"Site\" of \
             \"example.com/v1\"; create its CRD first"
        )
    );
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n";
    let error = load(&format!("{map}---\nkind: [\n"));
    assert!(error.to_string().starts_with(&format!("{shown}: document 2: ")), "{error}");
    assert_eq!(server.count::<ConfigMap>(None).unwrap(), 0);
    let error = load("just text");
    assert!(
        error.to_string().ends_with("document 1: the server rejects ? ?: 400: an object must be a JSON map")
    );
    let error = load(&format!("{map}---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: B}}}}"));
    assert!(error.to_string().contains("document 2: the server rejects ConfigMap B: 422: "), "{error}");
    assert_eq!(server.count::<ConfigMap>(None).unwrap(), 1);
    let error = server.load_yaml("no/such/folder").unwrap_err();
    assert!(matches!(error, LoadError::Read { .. }), "{error}");
    assert_eq!(error.to_string(), "cannot read no/such/folder");
}

#[test]
fn nothing_to_load_is_an_error() {
    let server = Server::new();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("README.md"), "text").unwrap();
    let error = server.load_yaml(folder.path()).unwrap_err();
    assert!(matches!(&error, LoadError::Empty(path) if path == folder.path()), "{error}");
    std::fs::write(folder.path().join("A.YAML"), "{apiVersion: v1, kind: Namespace, metadata: {name: a}}")
        .unwrap();
    assert_eq!(server.load_yaml(folder.path()).unwrap().len(), 1);
}
