//! Explores all orders of actions within bounds: see docs/reliability.md.

use std::{process::ExitCode, str::FromStr, time::Duration};

use clap::Parser;
use kube_informer_cli as cli;
use kube_informer_verification::explore::{Bounds, SCOPES, explore};
use tokio::time::Instant;

/// Explores all orders of events that can happen to an informer, within bounds.
#[derive(Debug, Parser)]
struct Arguments {
    /// The searches to run, by the start of their name, and other bounds for them, as BOUND=NUMBER.
    ///
    /// Without a name, all searches run. The bounds are changes, faults, handlers, mark, moves,
    /// objects, page, queries, queue and times.
    #[arg(value_name = "NAME or BOUND=NUMBER")]
    arguments: Vec<Argument>,
    /// The time limit of each search in minutes.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
}

#[derive(Debug, Clone)]
enum Argument {
    Name(String),
    Bound(Bound, u8),
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    Changes,
    Faults,
    Handlers,
    Mark,
    Moves,
    Objects,
    Page,
    Queries,
    Queue,
    Times,
}

impl FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((bound, number)) = text.split_once('=') else {
            let exists = SCOPES.iter().any(|scope| scope.name.starts_with(text));
            let names = || SCOPES.map(|scope| scope.name).join(", ");
            return exists
                .then(|| Self::Name(text.to_owned()))
                .ok_or_else(|| format!("the searches are {}", names()));
        };
        let number = number.parse().map_err(|_| "the number of a bound is between 0 and 255".to_owned())?;
        Ok(Self::Bound(bound.parse()?, number))
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "changes" => Self::Changes,
            "faults" => Self::Faults,
            "handlers" => Self::Handlers,
            "mark" => Self::Mark,
            "moves" => Self::Moves,
            "objects" => Self::Objects,
            "page" => Self::Page,
            "queries" => Self::Queries,
            "queue" => Self::Queue,
            "times" => Self::Times,
            _ => {
                return Err(
                    "the bounds are changes, faults, handlers, mark, moves, objects, page, queries, queue \
                            and times"
                        .to_owned(),
                );
            }
        })
    }
}

impl Bound {
    fn set(self, bounds: &mut Bounds, number: u8) {
        match self {
            Self::Changes => bounds.changes = number,
            Self::Faults => bounds.faults = number,
            Self::Handlers => bounds.handlers = number.into(),
            Self::Mark => bounds.mark = number.into(),
            Self::Moves => bounds.moves = number,
            Self::Objects => bounds.objects = number.into(),
            Self::Page => bounds.page = number.into(),
            Self::Queries => bounds.queries = number > 0,
            Self::Queue => bounds.queue = number.into(),
            Self::Times => bounds.times = number,
        }
    }
}

fn main() -> ExitCode {
    cli::run(|arguments| Ok(run(&arguments)))
}

fn run(Arguments { arguments, minutes }: &Arguments) -> ExitCode {
    let names: Vec<&str> = arguments
        .iter()
        .filter_map(|argument| match argument {
            Argument::Name(name) => Some(name.as_str()),
            Argument::Bound(..) => None,
        })
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failed = false;
    for scope in &SCOPES {
        if !names.is_empty() && !names.iter().any(|name| scope.name.starts_with(name)) {
            continue;
        }
        let mut bounds = scope.bounds;
        for argument in arguments {
            if let Argument::Bound(bound, number) = argument {
                bound.set(&mut bounds, *number);
            }
        }
        let start = Instant::now();
        let report = explore(bounds, threads, Duration::from_secs(minutes.saturating_mul(60)));
        println!("{}: {report}, {:.0?}", scope.name, start.elapsed());
        failed |= report.violation.is_some() || report.cut_short;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
