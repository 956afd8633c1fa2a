//! A copy of the workspace that can be patched, built and run.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{FoundBy, Mutant};

/// A hunt that lasts longer has found nothing. The longest search within default bounds takes half of it.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// The copy. Files that don't change keep their times, so that only what a patch touches is built anew.
#[derive(Debug)]
pub struct Tree {
    workspace: PathBuf,
    root: PathBuf,
}

impl Tree {
    /// A copy of this workspace in its target folder.
    ///
    /// # Errors
    ///
    /// The workspace is not found.
    pub fn new() -> Result<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let root = workspace.join("target/mutants/tree");
        Ok(Self { workspace, root })
    }

    /// Makes the copy equal to the workspace.
    ///
    /// # Errors
    ///
    /// git or the file system fails.
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
            // A file that is deleted and not yet committed is listed, too.
            if let Ok(contents) = std::fs::read(self.workspace.join(file)) {
                write_if_changed(&self.root.join(file), &contents)?;
            }
        }
        Ok(())
    }

    /// Whether a patch fits, without applying it.
    ///
    /// # Errors
    ///
    /// It doesn't; the error says where.
    pub fn check(&self, mutant: &Mutant) -> Result<()> {
        self.git_apply(&self.workspace, &["--check"], mutant)
    }

    /// Applies a patch to the copy.
    ///
    /// # Errors
    ///
    /// It does not fit.
    pub fn apply(&self, mutant: &Mutant) -> Result<()> {
        self.git_apply(&self.root, &[], mutant)
    }

    fn git_apply(&self, to: &Path, arguments: &[&str], mutant: &Mutant) -> Result<()> {
        let mut git = Command::new("git");
        // The copy is no repository and must not be taken for a folder of the one that it lies in.
        git.env("GIT_CEILING_DIRECTORIES", self.workspace.join("target/mutants"));
        run(git.current_dir(to).arg("apply").args(arguments).arg(&mutant.path)).map(drop)
    }

    /// Builds and runs who is to find the mutant: the exit is a success where it is not found. Nothing if it ran for too
    /// long and was ended.
    ///
    /// # Errors
    ///
    /// It can't be built.
    pub fn hunt(&self, mutant: &Mutant) -> Result<Option<Output>> {
        let (build, arguments): (Vec<&str>, &[String]) = match &mutant.found_by {
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

/// The output of a program, or nothing if it runs for longer: then it is ended, with the programs that it has started.
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
    ensure!(output.status.success(), "{command:?} ended with {}: {error}", output.status);
    Ok(output)
}
