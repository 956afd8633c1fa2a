//! The examples as the programs that users run.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

/// Builds an example and says where it is. Cargo builds no examples of other packages for a test, so this asks it to. With
/// the whole workspace in view it takes the same features as `cargo test --workspace`, and so mostly has nothing to do.
///
/// # Errors
///
/// When it can't be built.
///
/// # Cancel safety
///
/// When this is dropped early, cargo is killed and begins anew the next time.
pub async fn example(name: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--workspace", "--bin", "kube-testserver", "--example", name]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).kill_on_drop(true);
    let built = command.output().await?;
    ensure!(built.status.success(), "building {name}: {}", String::from_utf8_lossy(&built.stderr));
    // Tests are in `deps` beside the programs.
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).context("a test lies in target/PROFILE/deps")?;
    Ok(folder.join("examples").join(name))
}
