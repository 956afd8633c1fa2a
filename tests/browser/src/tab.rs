//! `Tab`: a page in Chromium, over the Chrome DevTools Protocol.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use crate::Chromium;

/// The time limit for the response to a command, and for an expected state of the page.
const LIMIT: Duration = Duration::from_secs(30);

/// The interval of the checks of an expected state.
const CHECK_INTERVAL: Duration = Duration::from_millis(30);

/// Selects whether the page may run scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    /// The page runs scripts.
    On,
    /// The page runs no scripts.
    Off,
}

/// Controls a page. It records the requests and the problems of the page.
pub struct Tab {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    last_id: u64,
    requests: Vec<String>,
    problems: Vec<String>,
}

impl Tab {
    /// Opens an empty page.
    ///
    /// # Errors
    ///
    /// Fails if Chromium does not respond.
    pub async fn open(chromium: &Chromium, scripts: Scripts) -> Result<Self> {
        let mut browser = Self::connect(&format!("ws://{}", chromium.address)).await?;
        let created = browser.call("Target.createTarget", json!({"url": "about:blank"})).await?;
        let target = created["targetId"].as_str().context("the new page has no id")?;
        let (host, _) = chromium.address.split_once('/').context("the address has no path")?;
        let mut tab = Self::connect(&format!("ws://{host}/devtools/page/{target}")).await?;
        for domain in ["Page", "Runtime", "Network", "Log"] {
            tab.call(&format!("{domain}.enable"), json!({})).await?;
        }
        let off = json!({"value": scripts == Scripts::Off});
        tab.call("Emulation.setScriptExecutionDisabled", off).await?;
        tab.resize(1280, 900).await?;
        Ok(tab)
    }

    async fn connect(url: &str) -> Result<Self> {
        let (socket, _) = connect_async(url).await.with_context(|| format!("cannot connect to {url}"))?;
        Ok(Self { socket, last_id: 0, requests: Vec::new(), problems: Vec::new() })
    }

    /// Loads a page and waits until it is complete.
    ///
    /// # Errors
    ///
    /// Fails if the page cannot be loaded.
    pub async fn load(&mut self, url: &str) -> Result<()> {
        let loaded = self.call("Page.navigate", json!({"url": url})).await?;
        ensure!(loaded.get("errorText").is_none(), "cannot load {url}: {}", loaded["errorText"]);
        self.wait_for("document.readyState === 'complete'").await
    }

    /// Returns the value of an expression in JavaScript.
    ///
    /// # Errors
    ///
    /// Fails if the expression throws an exception.
    pub async fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", parameters).await?;
        if let Some(details) = result.get("exceptionDetails") {
            bail!("{expression} failed: {details}");
        }
        Ok(result["result"]["value"].clone())
    }

    /// Returns the value of an expression as text.
    ///
    /// # Errors
    ///
    /// Fails if the expression throws an exception, or if its value is not a text.
    pub async fn text(&mut self, expression: &str) -> Result<String> {
        let value = self.evaluate(expression).await?;
        value.as_str().map(str::to_owned).with_context(|| format!("{expression} is not a text: {value}"))
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    ///
    /// Fails if the expression is not true after 30 s.
    pub async fn wait_for(&mut self, expression: &str) -> Result<()> {
        let wait = async {
            loop {
                // While a page loads, an expression can fail.
                if matches!(self.evaluate(expression).await, Ok(Value::Bool(true))) {
                    return;
                }
                sleep(CHECK_INTERVAL).await;
            }
        };
        timeout(LIMIT, wait).await.with_context(|| format!("never true: {expression}"))
    }

    /// Clicks at the centre of the first element that a CSS selector selects.
    ///
    /// # Errors
    ///
    /// Fails if no element is selected.
    pub async fn click(&mut self, selector: &str) -> Result<()> {
        let find = format!(
            "(() => {{ const element = document.querySelector({selector:?}); \
             element.scrollIntoView({{block: 'center'}}); \
             const box = element.getClientRects()[0]; \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let point = self.evaluate(&find).await?;
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": point[0], "y": point[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event).await?;
        }
        Ok(())
    }

    /// Presses a key: `Tab` or `Enter`.
    ///
    /// # Errors
    ///
    /// Fails for other keys.
    pub async fn press(&mut self, key: &str) -> Result<()> {
        // Without a text, the key has no default action.
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            other => bail!("unknown key {other}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }

    /// Selects the preferred colours of the user: `dark` or `light`.
    ///
    /// # Errors
    ///
    /// Fails if Chromium does not respond.
    pub async fn prefer(&mut self, colours: &str) -> Result<()> {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": colours}]});
        self.call("Emulation.setEmulatedMedia", features).await.map(drop)
    }

    /// Changes the size of the window, in pixels.
    ///
    /// # Errors
    ///
    /// Fails if Chromium does not respond.
    pub async fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size).await.map(drop)
    }

    /// Writes a picture of the window as PNG.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub async fn write_picture(&mut self, path: &Path) -> Result<()> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"})).await?;
        let bytes = STANDARD.decode(picture["data"].as_str().context("the picture is not a text")?)?;
        fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns the URLs of all requests so far.
    pub fn requests(&self) -> &[String] {
        &self.requests
    }

    /// Returns the errors of the console so far: exceptions, failed requests, violations of the security
    /// policy, and dialogs.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Sends a command and returns its result. Records the events that arrive before.
    async fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let command = json!({"id": id, "method": method, "params": parameters});
        let call = async {
            self.socket.send(Message::text(command.to_string())).await?;
            loop {
                let message = self.socket.next().await.context("chromium has closed the connection")??;
                let Message::Text(text) = message else { continue };
                let mut message: Value = serde_json::from_str(&text)?;
                if message["id"] != json!(id) {
                    self.record(&message);
                    continue;
                }
                if let Some(error) = message.get("error") {
                    bail!("{method} failed: {error}");
                }
                return Ok(message["result"].take());
            }
        };
        timeout(LIMIT, call).await.with_context(|| format!("no response to {method}"))?
    }

    fn record(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                self.requests.push(parameters["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            "Runtime.exceptionThrown" => self.problems.push(parameters.to_string()),
            "Runtime.consoleAPICalled" if parameters["type"] == "error" => {
                self.problems.push(parameters["args"].to_string());
            }
            "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                self.problems.push(parameters["entry"].to_string());
            }
            "Page.javascriptDialogOpening" => self.problems.push(format!("dialog: {parameters}")),
            _ => {}
        }
    }
}
