//! The output of `kubectl informer` at a terminal, rendered in Chromium. The tests skip if Chromium is not
//! installed. With `UPDATE_PICTURES=true`, they write the pictures of the documentation.

use std::{env, path::PathBuf};

use anyhow::{Result, ensure};
use kube_informer_browser::{Chromium, Console, Scripts, Tab};
use serde_json::json;
use tokio::process::Command;

/// The maximum size of a picture. A page with pictures must load quickly.
const MAX_PICTURE_BYTES: u64 = 150_000;

fn start(arguments: &[&str], width: u16, height: u16) -> Result<Console> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terminal-program"));
    command.args(arguments).arg("--demo").env("TERM", "xterm-256color").env_remove("NO_COLOR");
    Console::start(command, width, height)
}

/// Renders a page, checks that the element with a text has a colour, and writes the picture on request.
async fn render(chromium: &Chromium, html: &str, coloured: (&str, &str), name: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("page.html");
    std::fs::write(&file, html)?;
    let mut tab = Tab::open(chromium, Scripts::On).await?;
    tab.load(&format!("file://{}", file.display())).await?;
    let (text, colour) = coloured;
    let find =
        format!("[...document.querySelectorAll('span')].find((span) => span.innerText.includes({text:?}))");
    let found = tab.text(&format!("getComputedStyle({find}).color")).await?;
    ensure!(found == colour, "the text {text} has the colour {found}");
    let size = tab.evaluate("(() => { const box = document.querySelector('pre').getBoundingClientRect(); return [Math.ceil(box.width), Math.ceil(box.height)]; })()").await?;
    let pixels =
        |index: usize| size[index].as_u64().and_then(|pixels| u32::try_from(pixels).ok()).unwrap_or(0);
    ensure!(pixels(0) > 400 && pixels(1) > 100, "the page has the size {size}");
    ensure!(tab.evaluate("document.documentElement.scrollWidth <= 1280").await? == json!(true), "{size}");
    if env::var("UPDATE_PICTURES").as_deref() == Ok("true") {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
        tab.resize(pixels(0), pixels(1)).await?;
        tab.write_picture(&folder.join(format!("{name}.png"))).await?;
    }
    Ok(())
}

#[tokio::test]
async fn live_table_of_watch_is_rendered() -> Result<()> {
    let Some(chromium) = Chromium::start_or_skip().await? else { return Ok(()) };
    let mut console = start(&["watch", "pods,leases", "-A", "--live"], 150, 24)?;
    // The program writes a frame in several parts. A part must not end within a change.
    let is_whole = |line: &str| !line.contains("kubelet") || line.contains(" → ");
    let is_busy = |text: &str| {
        text.matches("ADDED").count() > 2
            && text.matches("kubelet: status.conditions").count() > 1
            && text.lines().all(is_whole)
    };
    console.wait_for(is_busy).await?;
    let html = console.html("kubectl informer watch pods,leases -A --live --demo", 24);
    console.stop().await?;
    render(&chromium, &html, ("ADDED", "rgb(86, 211, 100)"), "watch").await?;
    chromium.stop().await
}

#[tokio::test]
async fn table_of_cost_is_rendered() -> Result<()> {
    let Some(chromium) = Chromium::start_or_skip().await? else { return Ok(()) };
    let mut console = start(&["cost", "pods,secrets"], 165, 200)?;
    console.read_to_end().await?;
    let html = console.html("kubectl informer cost pods,secrets --demo", 34);
    render(&chromium, &html, ("RESOURCE", "rgb(215, 220, 228)"), "cost-terminal").await?;
    chromium.stop().await
}

#[test]
fn pictures_are_small() -> Result<()> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    for name in ["watch", "cost-terminal"] {
        let bytes = std::fs::metadata(folder.join(format!("{name}.png")))?.len();
        ensure!(bytes <= MAX_PICTURE_BYTES, "{name}.png has {bytes} bytes");
    }
    Ok(())
}
