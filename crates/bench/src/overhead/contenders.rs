//! The programs under comparison, and the commands that start them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use super::OverheadPart::{self, Memory, Namespaces, Reconcile, Start, Sync};
use super::{OverheadLoad, OverheadSettings};
use crate::contenders::{NO_GO, Skipped, build_go, has_go};

/// A program under comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    /// The program uses another project.
    pub(super) is_peer: bool,
    pub(super) parts: &'static [OverheadPart],
    program: Program,
}

#[derive(Clone, Copy, Debug)]
enum Program {
    /// `kube-bench overhead-program NAME`.
    Bench(&'static str),
    /// The program in crates/bench/go-overhead, with these flags.
    Go(&'static [&'static str]),
}

/// The folder and the name of the program in Go.
const GO_PROGRAM: (&str, &str) = ("go-overhead", "controller-runtime");

pub(super) const OURS: &str = "kube-operator";
pub(super) const OURS_SPLIT: &str = "kube-operator, one watch";
const KUBE_RUNTIME: &str = "kube-runtime";
const CONTROLLER: &str = "controller-runtime";
const CONTROLLER_NO_COPIES: &str = "controller-runtime, no copies";

/// All programs, in the order of the tables.
const ALL: [Contender; 5] = [
    Contender {
        name: OURS,
        is_peer: false,
        parts: &[Reconcile, Memory, Sync, Start, Namespaces],
        program: Program::Bench("ours"),
    },
    Contender {
        name: OURS_SPLIT,
        is_peer: false,
        parts: &[Namespaces],
        program: Program::Bench("ours-split"),
    },
    Contender {
        name: KUBE_RUNTIME,
        is_peer: true,
        parts: &[Reconcile, Sync, Start, Namespaces],
        program: Program::Bench("kube-runtime"),
    },
    Contender {
        name: CONTROLLER,
        is_peer: true,
        parts: &[Reconcile, Memory, Sync, Start, Namespaces],
        program: Program::Go(&[]),
    },
    Contender {
        name: CONTROLLER_NO_COPIES,
        is_peer: true,
        parts: &[Reconcile],
        program: Program::Go(&["-no-copies"]),
    },
];

/// The selected programs.
pub(super) struct Contenders {
    pub(super) chosen: Vec<Contender>,
    pub(super) skipped: Vec<Skipped>,
    /// The path of this program.
    program: PathBuf,
    go: Option<PathBuf>,
}

/// Checks before a measurement that the name of a program contains `only`.
pub(crate) fn check(only: Option<&str>) -> Result<()> {
    chosen(only).map(drop)
}

fn chosen(only: Option<&str>) -> Result<Vec<Contender>> {
    let is_chosen = |contender: &Contender| only.is_none_or(|only| contender.name.contains(only));
    let chosen: Vec<Contender> = ALL.into_iter().filter(is_chosen).collect();
    ensure!(
        !chosen.is_empty(),
        "the name of no program contains {:?}; the names are {}",
        only.unwrap_or_default(),
        ALL.map(|contender| format!("{:?}", contender.name)).join(", ")
    );
    Ok(chosen)
}

impl Contenders {
    /// Selects the programs whose name contains `only`, and builds the Go program if it is needed.
    pub(super) async fn select(only: Option<&str>, program: &Path, folder: &Path) -> Result<Self> {
        let is_go = |contender: &Contender| matches!(contender.program, Program::Go(_));
        let chosen = chosen(only)?;
        let needs_go = chosen.iter().any(is_go);
        let go = if needs_go && has_go().await { Some(build_go(GO_PROGRAM, folder).await?) } else { None };
        let (missing, chosen): (Vec<_>, Vec<_>) =
            chosen.into_iter().partition(|contender| is_go(contender) && go.is_none());
        let skip = |contender: Contender| Skipped { contender: contender.name.into(), why: NO_GO.into() };
        let skipped = missing.into_iter().map(skip).collect();
        Ok(Self { chosen, skipped, program: program.to_owned(), go })
    }

    /// Returns the command that starts the server of a part, if the part needs a server.
    pub(super) fn server(&self, settings: &OverheadSettings, part: OverheadPart) -> Option<Command> {
        let (flag, number) = match part {
            Reconcile | Memory => return None,
            Sync | Start => ("--per-kind", settings.load.per_kind),
            Namespaces => ("--namespaces", settings.load.namespaces),
        };
        let mut command = Command::new(&self.program);
        command.args(["overhead-server", flag, &number.to_string()]);
        Some(command)
    }

    /// Returns the command that measures a part with a program.
    pub(super) fn command(
        &self,
        contender: &Contender,
        part: OverheadPart,
        load: &OverheadLoad,
        kubeconfig: Option<&Path>,
    ) -> Result<Command> {
        let mut command = match contender.program {
            Program::Bench(name) => {
                let mut command = Command::new(&self.program);
                command.args(["overhead-program", name, part.name()]);
                command
            }
            Program::Go(flags) => {
                let mut command = Command::new(self.go.as_ref().context("the Go program was not built")?);
                command.arg(part.name()).args(flags);
                command
            }
        };
        let numbers =
            [("objects", load.objects), ("per-kind", load.per_kind), ("namespaces", load.namespaces)];
        for (flag, number) in numbers {
            // The package flag of Go accepts two dashes.
            command.args([format!("--{flag}"), number.to_string()]);
        }
        if let Some(kubeconfig) = kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        Ok(command)
    }
}
