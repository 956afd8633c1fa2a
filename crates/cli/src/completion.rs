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

/// Returns the text after the options as a section in roff: the exit codes, or the examples of a command.
fn last_section(command: &Command) -> String {
    let Some(text) = command.get_after_help() else { return String::new() };
    let text = text.to_string().replace('\\', "\\\\").replace('-', "\\-");
    let (title, lines) = text.split_once('\n').unwrap_or((&text, ""));
    // Each line remains a separate line.
    format!(".SH \"{}\"\n.nf\n{lines}\n.fi\n", title.trim_end_matches(':').to_uppercase())
}

/// Prints the manual page in roff. Each command has a section.
pub(crate) fn print_manual(mut command: Command) -> Result<(), CliError> {
    command.build();
    let mut pages = Vec::new();
    // Without the section of clap_mangen about subcommands, because the commands have no pages of their own.
    let man = Man::new(command.clone());
    man.render_title(&mut pages).map_err(CliError::Output)?;
    man.render_name_section(&mut pages).map_err(CliError::Output)?;
    man.render_synopsis_section(&mut pages).map_err(CliError::Output)?;
    man.render_description_section(&mut pages).map_err(CliError::Output)?;
    man.render_options_section(&mut pages).map_err(CliError::Output)?;
    pages.extend(last_section(&command).into_bytes());
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let man = Man::new(command.clone());
        let name = command.get_name().to_uppercase();
        pages.extend(format!(".SH \"COMMAND {name}\"\n").into_bytes());
        man.render_description_section(&mut pages).map_err(CliError::Output)?;
        man.render_options_section(&mut pages).map_err(CliError::Output)?;
        pages.extend(last_section(command).into_bytes());
    }
    print_text(&String::from_utf8_lossy(&pages))
}
