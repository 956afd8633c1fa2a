//! A copy of the workspace that can be patched, built and run.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{FoundBy, Mutant};

/// The time limit of a test run. A test that exceeds the limit has not found the mutant. The longest
/// search with default bounds takes half of this time.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// The copy of the workspace. Unchanged files keep their modification times, so only changed files are
/// rebuilt.
#[derive(Debug)]
pub struct Tree {
    workspace: PathBuf,
    root: PathBuf,
}

impl Tree {
    /// Copies this workspace to its target folder.
    ///
    /// # Errors
    ///
    /// Fails if the workspace is not found.
    pub fn new() -> Result<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let root = workspace.join("target/mutants/tree");
        Ok(Self { workspace, root })
    }

    /// Makes the copy equal to the workspace.
    ///
    /// # Errors
    ///
    /// Fails if git or the file system fails.
    pub fn restore(&self) -> Result<()> {
        let listed = run(Command::new("git").current_dir(&self.workspace).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let files: BTreeSet<String> =
            String::from_utf8(listed.stdout)?.split_terminator('\0').map(str::to_owned).collect();
        for file in &files {
            // A deleted file that is not committed is also listed.
            if let Ok(contents) = std::fs::read(self.workspace.join(file)) {
                write_if_changed(&self.root.join(file), &contents)?;
            }
        }
        Ok(())
    }

    /// Checks that a patch applies, without applying it.
    ///
    /// # Errors
    ///
    /// Fails if the patch does not apply. The error contains the position.
    pub fn check(&self, mutant: &Mutant) -> Result<()> {
        self.git_apply(&self.workspace, &["--check"], mutant)
    }

    /// Applies a patch to the copy.
    ///
    /// # Errors
    ///
    /// Fails if the patch does not apply.
    pub fn apply(&self, mutant: &Mutant) -> Result<()> {
        self.git_apply(&self.root, &[], mutant)
    }

    fn git_apply(&self, to: &Path, arguments: &[&str], mutant: &Mutant) -> Result<()> {
        let mut git = Command::new("git");
        // The copy is not a repository, and git must not use the repository around it.
        git.env("GIT_CEILING_DIRECTORIES", self.workspace.join("target/mutants"));
        run(git.current_dir(to).arg("apply").args(arguments).arg(&mutant.path)).map(drop)
    }

    /// Builds and runs a test that must find the applied mutant. A successful exit means that the test did
    /// not find the mutant. Returns `None` if the test exceeded the time limit.
    ///
    /// # Errors
    ///
    /// Fails if the build fails.
    pub fn hunt(&self, found_by: &FoundBy) -> Result<Option<Output>> {
        let (build, arguments): (Vec<&str>, &[String]) = match found_by {
            FoundBy::Explore(arguments) => (vec!["--bin", "explore"], arguments),
            FoundBy::Simulate(arguments) => (vec!["--bin", "simulate"], arguments),
            FoundBy::Test(arguments) => {
                run(self.cargo("test").args(arguments).arg("--no-run"))?;
                return run_within(LONGEST, self.cargo("test").args(arguments));
            }
        };
        let package = ["--package", "kube-informer-verification"];
        run(self.cargo("build").args(package).args(&build))?;
        let program = self.target().join("mutants").join(build[1]);
        run_within(LONGEST, Command::new(&program).args(arguments))
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", self.target());
        cargo.args([command, "--quiet", "--profile", "mutants"]);
        cargo
    }

    fn target(&self) -> PathBuf {
        self.workspace.join("target/mutants/target")
    }
}

/// Returns the output of a program, or `None` if it exceeds the time limit. The program and its
/// children are then killed.
fn run_within(time: Duration, command: &mut Command) -> Result<Option<Output>> {
    let piped = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = piped.spawn().with_context(|| format!("{piped:?}"))?;
    let group = format!("-{}", child.id());
    let (ended, waiting) = mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    match waiting.recv_timeout(time) {
        Ok(output) => Ok(Some(output?)),
        Err(_) => {
            run(Command::new("kill").args(["-KILL", "--", &group]))?;
            waiting.recv()??;
            Ok(None)
        }
    }
}

fn write_if_changed(path: &Path, contents: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == contents) {
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
    std::fs::write(path, contents).with_context(|| path.display().to_string())
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} exited with {}: {error}", output.status);
    Ok(output)
}
