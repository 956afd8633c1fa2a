//! The HTML report of `kubectl informer cost` in Chromium. The test skips if Chromium is not installed. With
//! `UPDATE_PICTURES=true`, it writes the picture of the documentation.

use std::{env, path::PathBuf, process::Stdio};

use anyhow::{Result, ensure};
use kube_informer_browser::{Chromium, Scripts, Tab};
use serde_json::json;
use tokio::process::Command;

#[tokio::test]
async fn report_of_cost_contains_charts_and_loads_nothing() -> Result<()> {
    let Some(chromium) = Chromium::start_or_skip().await? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("report.html");
    let mut program = Command::new(env!("CARGO_BIN_EXE_terminal-program"));
    program.args(["cost", "--demo", "--html"]).arg(&file).stdout(Stdio::null());
    ensure!(program.status().await?.success(), "the program failed");

    let url = format!("file://{}", file.display());
    let mut tab = Tab::open(&chromium, Scripts::Off).await?;
    tab.resize(1280, 1700).await?;
    tab.load(&url).await?;
    let text = tab.text("document.body.innerText").await?;
    for part in ["Advice", "metadata only", "Memory of all caches by representation", "pods"] {
        ensure!(text.contains(part), "the report does not contain {part}: {text}");
    }
    let width =
        "Math.min(...[...document.querySelectorAll('svg')].map((svg) => svg.getBoundingClientRect().width))";
    ensure!(tab.evaluate(&format!("{width} > 400")).await? == json!(true), "a chart is too narrow");
    for width in [360, 1280] {
        tab.resize(width, 1700).await?;
        let width = tab.evaluate("document.documentElement.scrollWidth - window.innerWidth").await?;
        ensure!(width == json!(0), "the report is {width} pixels wider than the window");
    }
    ensure!(tab.requests() == [url], "the report loads other files: {:?}", tab.requests());
    ensure!(tab.problems().is_empty(), "{:?}", tab.problems());
    if env::var("UPDATE_PICTURES").as_deref() == Ok("true") {
        tab.resize(1400, 1600).await?;
        tab.prefer("light").await?;
        let images = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
        tab.write_picture(&images.join("cost.png")).await?;
    }
    chromium.stop().await
}
