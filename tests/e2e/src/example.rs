//! The examples as the programs that users run.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

/// Builds an example and says where it is.
///
/// # Errors
///
/// When it can't be built.
///
/// # Cancel safety
///
/// When this is dropped early, cargo is killed and begins anew the next time.
pub async fn example(name: &str) -> Result<PathBuf> {
    Ok(build(name).await?.join("examples").join(name))
}

/// Cargo builds no programs of other packages for a test, so this asks it to, for kube-testserver and an example; gives the
/// folder of programs. With the whole workspace and an example in view it takes the same features as `cargo test
/// --workspace`, and so mostly has nothing to do.
pub(crate) async fn build(example: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--workspace", "--bin", "kube-testserver", "--example", example]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).kill_on_drop(true);
    // What `cargo test` tells this test of its package would have ring, and all that stands on it, built again.
    let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if of_package(&name) {
            command.env_remove(name);
        }
    }
    let built = command.output().await?;
    ensure!(built.status.success(), "building {example}: {}", String::from_utf8_lossy(&built.stderr));
    // Tests are in `deps` beside the programs.
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).context("a test lies in target/PROFILE/deps")?;
    Ok(folder.to_owned())
}
