//! Cold backups of etcd, and the actions of an administrator on them.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _};
use kube_client::{Client, Config};
use tempfile::TempDir;

use super::{RealServer, existing_cluster_error};

/// The path of the data of etcd, relative to the directory of the server.
const DATA: &str = "etcd";

/// The key for writes that increment the revision. No apiserver reads it. etcd requires base64; the
/// value is "bump".
const BUMP: &str = r#"{"key":"YnVtcA==","value":"YnVtcA=="}"#;

/// The number of concurrent writes.
const PARALLEL: usize = 16;

/// A copy of etcd's data.
#[derive(Debug)]
pub struct Backup(TempDir);

impl RealServer {
    /// Copies etcd's data, while etcd is stopped.
    ///
    /// # Errors
    ///
    /// Fails if etcd runs, if the copy fails, and for an existing cluster.
    pub fn back_up_etcd(&self) -> Result<Backup> {
        let backup = Backup(tempfile::tempdir()?);
        copy(&self.data_of_stopped_etcd()?, backup.0.path())?;
        Ok(backup)
    }

    /// Restores the data of etcd while etcd is stopped. Writes since the backup are lost, and their
    /// revisions are reused. A running apiserver would keep its state, so restart it as well.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as [`back_up_etcd`](Self::back_up_etcd).
    pub fn restore_etcd(&self, backup: &Backup) -> Result<()> {
        let data = self.data_of_stopped_etcd()?;
        std::fs::remove_dir_all(&data).context("remove the data of etcd")?;
        copy(backup.0.path(), &data)
    }

    /// Increments the revision of etcd by this number and compacts etcd, like a restore with
    /// `--bump-revision` and `--mark-compacted`. No revision is reused, and watches from before the
    /// restore expire.
    ///
    /// # Errors
    ///
    /// Fails if etcd does not run, for the same reasons as [`compact`](Self::compact), and for an
    /// existing cluster.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the revision may be incremented by a smaller number.
    pub async fn bump_etcd(&self, revisions: usize) -> Result<()> {
        let own = self.own.as_ref().ok_or_else(existing_cluster_error)?;
        let url = format!("http://{}", own.etcd_port.address()).parse()?;
        let client = &Client::try_from(Config::new(url))?;
        let put = async |_| -> Result<()> {
            let request = http::Request::post("/v3/kv/put").body(BUMP.into())?;
            client.request_text(request).await.context("write to etcd").map(drop)
        };
        let puts = futures_util::stream::iter(0..revisions).map(put).buffer_unordered(PARALLEL);
        puts.try_collect::<()>().await?;
        self.compact().await
    }

    fn data_of_stopped_etcd(&self) -> Result<std::path::PathBuf> {
        if self.own.as_ref().ok_or_else(existing_cluster_error)?.etcd.is_some() {
            bail!("etcd is running; stop it first");
        }
        let data = self.dir.path().join(DATA);
        ensure!(data.is_dir(), "etcd has no data, because it was never started");
        Ok(data)
    }
}

/// Copies the content of a directory to a second directory.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&path, &copied)?;
        } else {
            std::fs::copy(&path, &copied).with_context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_has_same_files() -> Result<()> {
        let (from, to) = (tempfile::tempdir()?, tempfile::tempdir()?);
        std::fs::create_dir_all(from.path().join("member/wal"))?;
        std::fs::write(from.path().join("member/wal/0.wal"), "log")?;
        std::fs::write(from.path().join("top"), "file")?;
        copy(from.path(), to.path())?;
        assert_eq!(std::fs::read_to_string(to.path().join("member/wal/0.wal"))?, "log");
        assert_eq!(std::fs::read_to_string(to.path().join("top"))?, "file");
        Ok(())
    }
}
