//! Writes the kubeconfig of a test server to a file.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::Path,
};

use serde::Deserialize;

/// The name of the cluster, the user and the context in the kubeconfig of a test server.
pub(crate) const NAME: &str = "testserver";

/// The maximum size of a file that can be replaced.
const MAX_BYTES: u64 = 1 << 20;

/// Writes the text of [`Listening::kubeconfig`](crate::Listening::kubeconfig) to a file. On Unix, only the
/// owner can read the file, because it contains a token.
///
/// # Errors
///
/// Fails with [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the file exists, and is neither empty nor
/// the kubeconfig of a test server. The kubeconfig of a real cluster is therefore not lost. Also fails if the
/// file cannot be written.
pub fn write_kubeconfig(file: &Path, kubeconfig: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // The file is truncated after the check.
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut opened = options.open(file)?;
    if opened.metadata()?.is_file() {
        check_replaceable(file)?;
        opened.set_len(0)?;
        restrict(&opened)?;
    }
    opened.write_all(kubeconfig.as_bytes())
}

#[cfg(unix)]
fn restrict(file: &File) -> io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
}

/// On other systems than Unix, the folder determines the permissions.
#[cfg(not(unix))]
fn restrict(_: &File) -> io::Result<()> {
    Ok(())
}

fn check_replaceable(file: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    File::open(file)?.take(MAX_BYTES).read_to_end(&mut text)?;
    if text.is_empty() || is_of_test_server(&text) {
        return Ok(());
    }
    let reason = "the file exists, and is not a kubeconfig of a test server";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
}

/// The clusters of a kubeconfig.
#[derive(Deserialize)]
struct Clusters {
    clusters: Vec<Cluster>,
}

#[derive(Deserialize)]
struct Cluster {
    name: String,
}

/// Returns whether a text is a kubeconfig of a test server, and of no other cluster. kubectl can have changed
/// the text from JSON to YAML.
fn is_of_test_server(text: &[u8]) -> bool {
    serde_saphyr::from_slice::<Clusters>(text).is_ok_and(|config| {
        !config.clusters.is_empty() && config.clusters.iter().all(|cluster| cluster.name == NAME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kubeconfig_of_test_server_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        let ours = r#"{"kind": "Config", "clusters": [{"name": "testserver", "cluster": {"server": "x"}}]}"#;
        write_kubeconfig(&file, ours).unwrap();
        let yaml = "kind: Config\nclusters:\n- cluster:\n    server: x\n  name: testserver\n";
        for replaceable in [ours, yaml, ""] {
            std::fs::write(&file, replaceable).unwrap();
            write_kubeconfig(&file, ours).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), ours);
        }
        let mixed = format!("{yaml}- cluster:\n    server: y\n  name: production\n");
        for other in ["a recording", "clusters: []\n", &mixed, "\0\u{1}"] {
            std::fs::write(&file, other).unwrap();
            let error = write_kubeconfig(&file, ours).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{other}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), other);
        }
    }

    #[cfg(unix)]
    #[test]
    fn file_is_private_also_if_it_existed() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        std::fs::write(&old, "").unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o644)).unwrap();
        for path in [new, old] {
            write_kubeconfig(&path, "text").unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        }
    }
}
