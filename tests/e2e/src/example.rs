//! Builds the example programs.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

/// Builds an example and returns its path.
///
/// # Errors
///
/// Fails if the build fails.
///
/// # Cancel safety
///
/// If the future is dropped, cargo is killed. The next call starts the build a second time.
pub async fn example(name: &str) -> Result<PathBuf> {
    Ok(build(name).await?.join("examples").join(name))
}

/// Builds kube-testserver and an example, because cargo does not build programs of other packages for a
/// test. Returns the folder of the programs. With the complete workspace and an example, cargo selects
/// the same features as `cargo test --workspace`, so usually no build is necessary.
pub(crate) async fn build(example: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--workspace", "--bin", "kube-testserver", "--example", example]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).kill_on_drop(true);
    // With the variables that `cargo test` sets for this package, cargo would rebuild ring and all its
    // dependents.
    let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if of_package(&name) {
            command.env_remove(name);
        }
    }
    let built = command.output().await?;
    ensure!(built.status.success(), "building {example}: {}", String::from_utf8_lossy(&built.stderr));
    // The executable of a test is in the folder `deps` next to the programs.
    let test = std::env::current_exe()?;
    let folder =
        test.parent().and_then(Path::parent).context("test executable is not in target/PROFILE/deps")?;
    Ok(folder.to_owned())
}
