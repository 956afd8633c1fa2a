//! The program's commands.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use tokio::io::{AsyncWriteExt as _, BufReader, stdin, stdout};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::client;
use crate::record::{RealServer, record};
use crate::recording::{Recording, exists, folder};
use crate::replay::{Listening, Replay, control};

/// This project, kube-runtime and client-go over the same recorded bytes, side by side.
#[derive(Debug, Parser)]
pub enum Command {
    /// Record a real kube-apiserver, unless that was done already.
    Record {
        /// How many Pods.
        #[arg(long, default_value_t = 20_000)]
        objects: usize,
    },
    /// Serve a recording; driven by its standard input.
    Replay {
        /// The folder of the recording.
        recording: PathBuf,
    },
    /// One of the programs that are compared; driven by its standard input.
    Client {
        /// Which.
        name: String,
        /// The server's URL.
        #[arg(long)]
        server: String,
    },
}

/// Carries out a command. `out` gets what it has to say, unless its standard output belongs to another program.
///
/// # Errors
/// What failed, and how.
pub fn run(command: Command, out: &mut impl Write) -> Result<()> {
    match command {
        Command::Record { objects } => {
            let folder = runtime()?.block_on(recorded(objects, out))?;
            Ok(writeln!(out, "{}", folder.display())?)
        }
        // One thread is enough, and leaves the other core to who is measured.
        Command::Replay { recording } => {
            Builder::new_current_thread().enable_all().build()?.block_on(run_replay(&recording))
        }
        Command::Client { name, server } => {
            runtime()?.block_on(client::run(&name, &server, BufReader::new(stdin()), stdout()))
        }
    }
}

/// As `#[tokio::main]` makes it for programs that say nothing else.
fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

/// The recording of so many objects, which is made where there is none.
async fn recorded(objects: usize, out: &mut impl Write) -> Result<PathBuf> {
    let folder = folder(target(&std::env::current_exe()?)?, objects);
    if !exists(&folder) {
        writeln!(out, "recording {objects} Pods of a real kube-apiserver")?;
        let server = RealServer::start().await?;
        let client = server.client().await?;
        let version = client.apiserver_version().await?.git_version;
        let recorded = record(&client, objects, true, &format!("kube-apiserver {version}"), &folder).await;
        server.stop().await?;
        recorded?;
    }
    Ok(folder)
}

/// Cargo's target folder, out of which this program runs.
fn target(program: &Path) -> Result<&Path> {
    program.ancestors().nth(2).context("this program is in no target folder")
}

async fn run_replay(recording: &Path) -> Result<()> {
    let replay = Replay::new(Recording::load(recording)?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let listening = Listening { url: format!("http://{}", listener.local_addr()?) };
    let mut output = stdout();
    output.write_all(format!("{}\n", serde_json::to_string(&listening)?).as_bytes()).await?;
    output.flush().await?;
    tokio::select! {
        served = std::sync::Arc::clone(&replay).serve(listener) => served?,
        driven = control(&replay, BufReader::new(stdin()), output) => driven?,
    }
    Ok(())
}
