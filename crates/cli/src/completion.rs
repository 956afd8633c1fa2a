//! `completion` and `man`: scripts for shells, and the manual page.

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::{error::CliError, output::print_text};

/// The options of `completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionFlags {
    /// The shell.
    shell: Shell,
}

/// Prints the completion script of a shell.
pub(crate) fn print_completion(flags: &CompletionFlags, mut command: Command) -> Result<(), CliError> {
    let mut script = Vec::new();
    generate(flags.shell, &mut command, "kubectl-informer", &mut script);
    print_text(&String::from_utf8_lossy(&script))
}

/// Prints the manual page in roff. Each command has a section.
pub(crate) fn print_manual(mut command: Command) -> Result<(), CliError> {
    command.build();
    let mut pages = Vec::new();
    Man::new(command.clone()).render(&mut pages).map_err(CliError::Output)?;
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let man = Man::new(command.clone());
        let name = command.get_name().to_uppercase();
        pages.extend(format!(".SH \"COMMAND {name}\"\n").into_bytes());
        man.render_description_section(&mut pages).map_err(CliError::Output)?;
        man.render_options_section(&mut pages).map_err(CliError::Output)?;
    }
    print_text(&String::from_utf8_lossy(&pages))
}
