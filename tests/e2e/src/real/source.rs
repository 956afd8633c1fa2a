//! The source of a server, and the behaviour of tests without a server.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

/// Instructions to get a server.
pub const HOW_TO_GET_A_SERVER: &str = "run .ci/real-apiserver (needs Go), or set KUBEBUILDER_ASSETS to a directory with \
     etcd and kube-apiserver, or KUBE_INFORMER_TEST_KUBECONFIG to the kubeconfig of a cluster that tests may change";

/// The server that tests run against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A directory with the programs `etcd` and `kube-apiserver`, in the layout of envtest.
    Assets(PathBuf),
    /// The kubeconfig of an existing cluster. The tests cannot stop its servers.
    Cluster(PathBuf),
    /// The single binary that `.ci/real-apiserver` builds, for one version of Kubernetes.
    Binary(PathBuf),
}

impl Source {
    /// Checks `KUBEBUILDER_ASSETS`, `KUBE_INFORMER_TEST_KUBECONFIG` and the built binary, in this
    /// order.
    ///
    /// # Errors
    ///
    /// Fails if one of the variables is set and its path does not exist, because the user selected this
    /// server explicitly.
    pub fn find() -> Result<Option<Self>> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::choose(
            variable("KUBEBUILDER_ASSETS"),
            variable("KUBE_INFORMER_TEST_KUBECONFIG"),
            &built(REAL_APISERVER),
        )
    }

    /// Returns whether this is a binary of another version than the version of `go.mod`.
    #[must_use]
    pub fn is_other_version(&self) -> bool {
        matches!(self, Self::Binary(binary) if *binary != built(REAL_APISERVER))
    }

    fn choose(assets: Option<OsString>, kubeconfig: Option<OsString>, binary: &Path) -> Result<Option<Self>> {
        if let Some(assets) = assets.map(PathBuf::from) {
            let one = assets.join(REAL_APISERVER);
            if one.is_file() {
                return Ok(Some(Self::Binary(one)));
            }
            for program in ["etcd", "kube-apiserver"] {
                let path = assets.join(program);
                ensure!(path.is_file(), "KUBEBUILDER_ASSETS is set, but {} does not exist", path.display());
            }
            return Ok(Some(Self::Assets(assets)));
        }
        if let Some(path) = kubeconfig.map(PathBuf::from) {
            ensure!(
                path.is_file(),
                "KUBE_INFORMER_TEST_KUBECONFIG is set, but {} does not exist",
                path.display()
            );
            return Ok(Some(Self::Cluster(path)));
        }
        Ok(binary.is_file().then(|| Self::Binary(binary.to_owned())))
    }
}

/// The name of the program that contains the servers.
pub(super) const REAL_APISERVER: &str = "real-apiserver";

/// Returns the path at which `.ci/real-apiserver` builds a program.
pub(super) fn built(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("real-apiserver/bin").join(name)
}

/// Prints that `checks` checks of `name` are skipped without a server.
///
/// # Errors
///
/// Fails if the variable `CI` is `true`, because CI must not skip tests.
pub fn skip_or_fail(name: &str, checks: usize) -> Result<()> {
    let text = skip(name, checks, std::env::var("CI").is_ok_and(|value| value == "true"))?;
    // Does not use println, because the test harness hides its output if the test passes.
    writeln!(std::io::stderr(), "{text}")?;
    Ok(())
}

fn skip(name: &str, checks: usize, ci: bool) -> Result<String> {
    let text = format!("SKIPPED: {checks} checks of {name}; how to get a server: {HOW_TO_GET_A_SERVER}");
    if ci {
        bail!("{text}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(dir: &Path, name: &str) -> Result<PathBuf> {
        let path = dir.join(name);
        std::fs::write(&path, "")?;
        Ok(path)
    }

    #[test]
    fn assets_precede_cluster_and_cluster_precedes_binary() -> Result<()> {
        let dir = tempfile::tempdir()?;
        touch(dir.path(), "etcd")?;
        touch(dir.path(), "kube-apiserver")?;
        let config = touch(dir.path(), "kubeconfig")?;
        let built = tempfile::tempdir()?;
        let binary = touch(built.path(), "real-apiserver")?;
        let assets = Some(dir.path().as_os_str().to_owned());
        let cluster = Some(config.clone().into_os_string());

        let all = Source::choose(assets, cluster.clone(), &binary)?;
        assert_eq!(all, Some(Source::Assets(dir.path().to_owned())));
        assert_eq!(Source::choose(None, cluster, &binary)?, Some(Source::Cluster(config)));
        assert_eq!(Source::choose(None, None, &binary)?, Some(Source::Binary(binary.clone())));
        let versions = tempfile::tempdir()?;
        let other = touch(versions.path(), "real-apiserver")?;
        let assets = Some(versions.path().as_os_str().to_owned());
        assert_eq!(Source::choose(assets, None, &binary)?, Some(Source::Binary(other)));
        assert_eq!(Source::choose(None, None, &dir.path().join("absent"))?, None);
        Ok(())
    }

    #[test]
    fn missing_explicit_source_is_an_error() -> Result<()> {
        let (dir, built) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let binary = touch(built.path(), "real-apiserver")?;
        let empty = Some(dir.path().as_os_str().to_owned());
        assert!(Source::choose(empty, None, &binary).is_err());
        assert!(Source::choose(None, Some("/absent/kubeconfig".into()), &binary).is_err());
        Ok(())
    }

    #[test]
    fn checks_without_server_are_skipped_locally_and_fail_in_ci() -> Result<()> {
        let text = skip("restarts", 3, false)?;
        assert!(text.starts_with("SKIPPED: 3 checks of restarts; how to get a server: "), "{text}");
        assert!(skip("restarts", 3, true).is_err());
        Ok(())
    }
}
