//! Tests of the page for browsers in Chromium. The tests skip if Chromium is not installed.

use std::{env, path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use kube_informer_browser::{Chromium, Demo, FAILING_ERROR, FAILING_KEY, HOSTILE_KEY, Scripts, Tab};
use serde_json::json;
use tokio::time::sleep;

/// The names in the navigation, and a text of each page.
const PAGES: [(&str, &str); 6] = [
    ("Overview", "Needs attention"),
    ("Caches", "≥: typed objects"),
    ("Queues", "Oldest key"),
    ("Reconciles", "Latest reconciles"),
    ("Replicas", "This process is the leader"),
    ("Configuration", "Grace period"),
];

/// Starts the demo and Chromium, and runs a test with an empty page.
async fn run(scripts: Scripts, test: impl AsyncFnOnce(&Demo, &mut Tab) -> Result<()>) -> Result<()> {
    let Some(chromium) = Chromium::start_or_skip().await? else { return Ok(()) };
    let demo = Demo::start(([127, 0, 0, 1], 0).into())?;
    let mut tab = Tab::open(&chromium, scripts).await?;
    let result = test(&demo, &mut tab).await;
    demo.stop().await?;
    chromium.stop().await?;
    result
}

/// Returns an expression for the text of an element.
fn text_of(selector: &str) -> String {
    format!("document.querySelector({selector:?}).innerText")
}

/// Returns an expression that is true if the content contains a text.
fn has_text(text: &str) -> String {
    format!("document.querySelector('main').innerText.includes({text:?})")
}

/// Returns an expression that is true if the page receives updates.
const IS_LIVE: &str = "document.getElementById('live').dataset.state === 'live'";

/// Returns an expression that is true after a change has arrived in another stream of the page.
const HAS_CHANGE: &str = "new Promise((resolve) => { \
     const [stream, ids] = [new EventSource(location.pathname), new Set()]; \
     stream.addEventListener('section', (event) => { \
       const id = event.data.split('\\n', 1)[0]; \
       if (ids.has(id)) { stream.close(); resolve(true); } \
       ids.add(id); \
     }); \
   })";

#[tokio::test]
async fn pages_load_without_errors_and_foreign_requests() -> Result<()> {
    run(Scripts::On, async |demo, tab| {
        tab.load(&demo.url("/")).await?;
        for (name, text) in PAGES {
            let link = format!(
                "[...document.querySelectorAll('nav a')].find((link) => link.innerText === {name:?}).pathname"
            );
            let path = tab.text(&link).await?;
            tab.click(&format!("nav a[href='{path}']")).await?;
            tab.wait_for(&format!("location.pathname === {path:?} && {}", has_text(text))).await?;
            tab.wait_for(IS_LIVE).await?;
            let current = tab.text(&text_of("nav [aria-current='page']")).await?;
            ensure!(current == name, "the current page is {current}");
        }
        tab.load(&demo.url(&format!("/ui/key/configmap/{FAILING_KEY}"))).await?;
        tab.wait_for(IS_LIVE).await?;
        ensure!(tab.problems().is_empty(), "{:#?}", tab.problems());
        // A chart without a line would be an error in its SVG.
        tab.load(&demo.url("/")).await?;
        tab.wait_for("document.querySelector('#controllers polyline')?.getBBox().width > 0").await?;
        let origin = demo.url("/");
        let foreign: Vec<_> = tab.requests().iter().filter(|url| !url.starts_with(&origin)).collect();
        ensure!(foreign.is_empty() && tab.requests().len() > 20, "{foreign:?} of {:?}", tab.requests());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn updates_arrive_until_they_are_paused() -> Result<()> {
    run(Scripts::On, async |demo, tab| {
        tab.load(&demo.url("/ui/key/configmap/blog/mail")).await?;
        tab.wait_for(IS_LIVE).await?;
        demo.label("blog", "mail", "first").await?;
        tab.wait_for(&has_text("metadata.labels")).await?;
        ensure!(tab.evaluate("performance.getEntriesByType('navigation').length").await? == json!(1));

        tab.load(&demo.url("/ui/caches")).await?;
        tab.wait_for(IS_LIVE).await?;
        tab.click("#pause").await?;
        tab.wait_for("document.getElementById('live').innerText === 'Paused'").await?;
        let paused = tab.text("document.querySelector('main').innerHTML").await?;
        demo.label("blog", "mail", "second").await?;
        tab.wait_for(HAS_CHANGE).await?;
        ensure!(
            tab.text("document.querySelector('main').innerHTML").await? == paused,
            "a paused page changes"
        );
        tab.click("#pause").await?;
        tab.wait_for(IS_LIVE).await?;
        tab.wait_for(&format!("document.querySelector('main').innerHTML !== {paused:?}")).await
    })
    .await
}

/// The first click opens the page of the key.
#[tokio::test]
async fn failing_key_is_found_from_the_overview() -> Result<()> {
    run(Scripts::On, async |demo, tab| {
        tab.load(&demo.url("/")).await?;
        tab.wait_for(&has_text(FAILING_KEY)).await?;
        tab.click(&format!("#problems a[href$='{FAILING_KEY}']")).await?;
        tab.wait_for(&format!("location.pathname === '/ui/key/configmap/{FAILING_KEY}'")).await?;
        tab.wait_for(&has_text(FAILING_ERROR)).await?;
        tab.wait_for(&has_text("The next reconcile has these reasons")).await
    })
    .await
}

#[tokio::test]
async fn key_that_looks_like_a_script_is_text() -> Result<()> {
    run(Scripts::On, async |demo, tab| {
        tab.load(&demo.url("/ui/reconciles")).await?;
        tab.wait_for(&has_text(HOSTILE_KEY)).await?;
        tab.wait_for(IS_LIVE).await?;
        tab.click("a[href*='script%3E']").await?;
        tab.wait_for(&format!("document.querySelector('h1').innerText === {HOSTILE_KEY:?}")).await?;
        tab.wait_for(IS_LIVE).await?;
        // An update could execute a script that the first load did not execute.
        tab.evaluate("window.before = document.querySelector('main').innerHTML").await?;
        tab.wait_for("document.querySelector('main').innerHTML !== window.before").await?;
        let scripts = tab.evaluate("document.querySelectorAll('main script').length").await?;
        ensure!(scripts == json!(0) && tab.problems().is_empty(), "{:#?}", tab.problems());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn colours_follow_the_preference_of_the_user() -> Result<()> {
    run(Scripts::On, async |demo, tab| {
        let mut contrasts = Vec::new();
        for colours in ["light", "dark"] {
            tab.prefer(colours).await?;
            tab.load(&demo.url("/")).await?;
            let colour = "(() => { const style = getComputedStyle(document.body); \
                          return style.backgroundColor + ' ' + style.color; })()";
            contrasts.push(tab.text(colour).await?);
        }
        ensure!(
            contrasts == ["rgb(246, 247, 249) rgb(27, 34, 48)", "rgb(18, 22, 29) rgb(228, 232, 239)"],
            "{contrasts:?}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn keyboard_reaches_the_content_and_each_page() -> Result<()> {
    run(Scripts::On, async |demo, tab| {
        tab.load(&demo.url("/")).await?;
        tab.press("Tab").await?;
        let focused = "document.activeElement.innerText.trim()";
        ensure!(tab.text(focused).await? == "Skip to the content");
        let left = tab.evaluate("document.activeElement.getBoundingClientRect().left >= 0").await?;
        ensure!(left == json!(true), "the focused link is visible");
        tab.press("Enter").await?;
        tab.wait_for("document.activeElement.id === 'content' && location.hash === '#content'").await?;

        tab.load(&demo.url("/")).await?;
        let mut reached = Vec::new();
        for _ in 0..PAGES.len() + 4 {
            tab.press("Tab").await?;
            reached.push(tab.text(focused).await?);
        }
        for (name, _) in PAGES {
            ensure!(reached.iter().any(|text| text == name), "Tab does not reach {name}: {reached:?}");
        }
        tab.load(&demo.url("/")).await?;
        tab.evaluate("document.querySelector('nav a[href=\"/ui/queues\"]').focus()").await?;
        tab.press("Enter").await?;
        tab.wait_for("location.pathname === '/ui/queues'").await
    })
    .await
}

#[tokio::test]
async fn focus_survives_an_update() -> Result<()> {
    run(Scripts::On, async |demo, tab| {
        tab.load(&demo.url("/ui/reconciles")).await?;
        tab.wait_for(&has_text(FAILING_KEY)).await?;
        tab.wait_for(IS_LIVE).await?;
        tab.evaluate("window.before = document.getElementById('failing'); before.querySelector('a').focus()")
            .await?;
        // The number of failures grows, so the table is replaced.
        tab.wait_for("document.getElementById('failing') !== window.before").await?;
        tab.wait_for(&format!("document.activeElement.innerText === {FAILING_KEY:?}")).await
    })
    .await
}

/// The server sends a section only after a change, so the page must not drop it while text is selected.
#[tokio::test]
async fn update_during_a_selection_is_displayed_later() -> Result<()> {
    run(Scripts::On, async |demo, tab| {
        tab.load(&demo.url("/ui/key/configmap/blog/mail")).await?;
        tab.wait_for(IS_LIVE).await?;
        tab.evaluate(
            "window.before = document.getElementById('changes'); getSelection().selectAllChildren(before)",
        )
        .await?;
        demo.label("blog", "mail", "selected").await?;
        let has_change = "fetch(location.pathname).then((response) => response.text()) \
                          .then((text) => text.includes('metadata.labels'))";
        tab.wait_for(has_change).await?;
        // The second update after the change contains the change.
        for _ in 0..2 {
            tab.evaluate("window.runs = document.getElementById('runs')").await?;
            tab.wait_for("document.getElementById('runs') !== window.runs").await?;
        }
        let is_kept = "document.getElementById('changes') === window.before";
        ensure!(tab.evaluate(is_kept).await? == json!(true), "a section with a selection is replaced");
        let after = "new Promise((done) => { \
                     document.addEventListener('selectionchange', () => done(document.getElementById('changes').innerText)); \
                     getSelection().removeAllRanges(); })";
        ensure!(tab.text(after).await?.contains("metadata.labels"), "the section is not replaced");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pages_without_scripts_contain_all_tables() -> Result<()> {
    run(Scripts::Off, async |demo, tab| {
        tab.load(&demo.url("/")).await?;
        for (_, text) in PAGES {
            while !tab.text("document.querySelector('main').innerText").await?.contains(text) {
                let next = "document.querySelector('nav li:has([aria-current]) + li a').pathname";
                let path = tab.text(next).await?;
                tab.click(&format!("nav a[href='{path}']")).await?;
                tab.wait_for(&format!("location.pathname === {path:?}")).await?;
            }
        }
        tab.load(&demo.url("/ui/reconciles")).await?;
        tab.click("#latest a").await?;
        tab.wait_for(&has_text("Time of the last reconcile")).await?;
        ensure!(tab.text(&text_of("#live")).await? == "Reload the page for new values.");
        ensure!(tab.evaluate("document.getElementById('pause') === null").await? == json!(true));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn narrow_window_needs_no_horizontal_scrolling() -> Result<()> {
    run(Scripts::On, async |demo, tab| {
        tab.resize(360, 740).await?;
        for (path, _) in [("/", 0), ("/ui/caches", 0), ("/ui/reconciles", 0), ("/ui/configuration", 0)] {
            tab.load(&demo.url(path)).await?;
            let width = tab.evaluate("document.documentElement.scrollWidth").await?;
            ensure!(width == json!(360), "{path} is {width} pixels wide");
        }
        Ok(())
    })
    .await
}

/// With `UPDATE_PICTURES=true`, writes the pictures of the documentation.
#[tokio::test]
async fn pictures_of_the_documentation_are_written() -> Result<()> {
    if env::var("UPDATE_PICTURES").as_deref() != Ok("true") {
        println!("skipped: UPDATE_PICTURES=true writes the pictures");
        return Ok(());
    }
    run(Scripts::On, async |demo, tab| {
        // The charts need some samples.
        sleep(Duration::from_secs(150)).await;
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
        std::fs::create_dir_all(&folder)?;
        for (file, colours, path, height) in [
            ("page-overview", "light", "/", 800),
            ("page-caches", "dark", "/ui/caches", 820),
            ("page-key", "light", "/ui/key/service/wiki/search", 900),
        ] {
            tab.prefer(colours).await?;
            tab.resize(1200, height).await?;
            tab.load(&demo.url(path)).await?;
            tab.wait_for(IS_LIVE).await?;
            tab.write_picture(&folder.join(format!("{file}.png"))).await?;
        }
        Ok(())
    })
    .await
}
