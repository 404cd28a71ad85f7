//! A real Chromium, driven by its own chromedriver. Its protocol is JSON over HTTP, and half of what is needed here
//! (colours, screens, the console) is Chromium's own, so this is all the client there is.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{DEADLINE, Process, processes_of};

/// How chromedriver says where it listens.
const LISTENS: &str = "started successfully on port ";
/// Longest wait for one answer of chromedriver.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(150);
/// How long a browser may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest run of a script in a page, in milliseconds.
const SCRIPT_MS_MAX: u32 = 120_000;
/// Keys, as the protocol names them.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";

/// How the screen looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) name: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
}

pub(crate) const LIGHT: Screen = Screen {
    name: "light",
    width: 1440,
    height: 1000,
    dark: false,
};
pub(crate) const DARK: Screen = Screen {
    name: "dark",
    dark: true,
    ..LIGHT
};
pub(crate) const PHONE: Screen = Screen {
    name: "phone",
    width: 390,
    height: 844,
    dark: false,
};

/// A browser with one window. It ends with its driver, and that when it is dropped.
pub(crate) struct Browser {
    driver: Process,
    session: String,
    http: reqwest::Client,
    profile: TempDir,
}

impl Browser {
    /// Starts a browser that has never been used.
    pub(crate) async fn start() -> Self {
        let profile = tempfile::tempdir().expect("a directory");
        // Where it is missing: scripts/setup-ui.sh
        let mut driver = Process::spawn(
            Command::new("chromedriver")
                .arg("--port=0")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null()),
        );
        let said = BufReader::new(driver.stdout.take().expect("a pipe"));
        let port = said
            .lines()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, port) = line.split_once(LISTENS)?;
                port.trim_end_matches('.').parse::<u16>().ok()
            })
            .expect("chromedriver says where it listens");
        let http = reqwest::Client::builder()
            .timeout(ANSWER_TIMEOUT)
            .no_proxy()
            .build();
        let mut browser = Self {
            driver,
            session: format!("http://127.0.0.1:{port}/session"),
            http: http.expect("a client"),
            profile,
        };
        let arguments = [
            "--headless",
            // A browser that hears its driver over a pipe ends with it, however that ends; over a port it would stay.
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
        arguments.push(format!(
            "--user-data-dir={}",
            browser.profile.path().display()
        ));
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let opened = browser.ask(Method::POST, "", Some(capabilities)).await;
        let id = opened["sessionId"].as_str().expect("a session");
        browser.session = format!("{}/{id}", browser.session);
        let limits = json!({"script": SCRIPT_MS_MAX});
        browser.ask(Method::POST, "/timeouts", Some(limits)).await;
        browser
    }

    /// Its processes, without its driver.
    pub(crate) fn processes(&self) -> Vec<String> {
        processes_of(self.profile.path())
    }

    /// What tells the processes of this browser from all others.
    pub(crate) fn profile(&self) -> &Path {
        self.profile.path()
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let mut request = self.http.request(method, format!("{}{path}", self.session));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.expect("chromedriver answers");
        let answer: Value = answer.json().await.expect("JSON");
        let value = answer["value"].clone();
        assert!(value["error"].is_null(), "{path}: {value:#}");
        value
    }

    /// One of Chromium's own commands.
    pub(crate) async fn chrome(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.ask(Method::POST, "/goog/cdp/execute", Some(body))
            .await
    }

    /// Looks at an address, until it is loaded; again where nobody led at that moment.
    pub(crate) async fn open(&self, url: &str) {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            self.ask(Method::POST, "/url", Some(json!({"url": url})))
                .await;
            let led = self
                .run("return !/No leader answers/.test(document.title)")
                .await;
            if led == json!(true) || tokio::time::Instant::now() >= deadline {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// What `script` returns.
    pub(crate) async fn run(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.ask(Method::POST, "/execute/sync", Some(body)).await
    }

    /// What the promise of `script` comes to.
    pub(crate) async fn resolve(&self, script: &str) -> Value {
        let script =
            format!("const done = arguments[0]; ({script}).then(done, (e) => done(String(e)));");
        let body = json!({"script": script, "args": []});
        self.ask(Method::POST, "/execute/async", Some(body)).await
    }

    /// The text of the page.
    pub(crate) async fn text(&self) -> String {
        let text = self.run("return document.body.innerText").await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// The address of the page.
    pub(crate) async fn address(&self) -> String {
        let address = self.run("return location.href").await;
        address.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until `script` returns something true.
    pub(crate) async fn wait(&self, what: &str, script: &str) {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let seen = self.run(script).await;
            if seen == json!(true) {
                return;
            }
            let late = tokio::time::Instant::now() >= deadline;
            assert!(
                !late,
                "after {DEADLINE:?} still not: {what}; {seen}; the page:\n{}",
                self.text().await
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Presses keys, one after the other.
    pub(crate) async fn keys(&self, keys: &[&str]) {
        let actions = keys.iter().flat_map(|key| {
            [
                json!({"type": "keyDown", "value": key}),
                json!({"type": "keyUp", "value": key}),
            ]
        });
        let body = json!({"actions": [
            {"type": "key", "id": "keyboard", "actions": actions.collect::<Vec<_>>()}
        ]});
        self.ask(Method::POST, "/actions", Some(body)).await;
    }

    /// What has the focus, in words: its name, and what it says.
    pub(crate) async fn focused(&self) -> String {
        let script = "const e = document.activeElement; \
            return e.nodeName + ' ' + (e.innerText || e.name || e.id || '').trim()";
        self.run(script)
            .await
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Presses Tab until something has the focus whose name and text begin with `words`.
    pub(crate) async fn tab_to(&self, words: &str) {
        let mut passed = Vec::new();
        for _ in 0..60 {
            self.keys(&[TAB]).await;
            let focused = self.focused().await;
            if focused.starts_with(words) {
                return;
            }
            passed.push(focused);
        }
        panic!("Tab does not lead to `{words}`: {passed:#?}");
    }

    /// Changes what the screen is like.
    pub(crate) async fn on(&self, screen: Screen) {
        let scheme = if screen.dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.chrome("Emulation.setEmulatedMedia", media).await;
        let size = json!({
            "width": screen.width, "height": screen.height, "deviceScaleFactor": 1,
            "mobile": screen.width < 600,
        });
        self.chrome("Emulation.setDeviceMetricsOverride", size)
            .await;
    }

    /// Keeps a picture of what is on the screen.
    pub(crate) async fn picture(&self, path: &Path) {
        let taken = self
            .chrome("Page.captureScreenshot", json!({"format": "png"}))
            .await;
        let data = taken["data"].as_str().expect("a picture");
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, decoded(data)).expect("written");
    }

    /// What the console says at the level of an error since it was asked last. That nobody leads for a moment (503), as
    /// happens on a machine that is too busy, is no fault of a page.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self
            .ask(Method::POST, "/se/log", Some(json!({"type": "browser"})))
            .await;
        let lines = log.as_array().cloned().unwrap_or_default();
        let bad = lines.iter().filter(|line| line["level"] == "SEVERE");
        let words = bad.map(|line| line["message"].as_str().unwrap_or_default());
        words
            .filter(|words| !words.contains("status of 503"))
            .map(str::to_owned)
            .collect()
    }

    /// What axe finds wrong with the page by WCAG 2.1 AA.
    pub(crate) async fn faults(&self) -> Vec<String> {
        self.found_by("['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']")
            .await
    }

    /// The same of its colours alone: all that differs between light and dark.
    pub(crate) async fn faults_of_colours(&self) -> Vec<String> {
        self.found_by("{type: 'rule', values: ['color-contrast', 'link-in-text-block']}")
            .await
    }

    async fn found_by(&self, only: &str) -> Vec<String> {
        let axe = std::fs::read_to_string(axe_path()).expect("axe: see scripts/setup-ui.sh");
        self.chrome("Runtime.evaluate", json!({"expression": axe}))
            .await;
        let script = format!(
            "axe.run(document, {{runOnly: {only}, resultTypes: ['violations']}}) \
            .then((r) => r.violations.map((v) => v.id + ': ' + v.help + ' ' + \
            v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + ' ' + n.failureSummary).join(' | ')))"
        );
        let found = self.resolve(&script).await;
        let found = found
            .as_array()
            .unwrap_or_else(|| panic!("axe: {found}"))
            .clone();
        found
            .iter()
            .map(|fault| fault.as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.driver.kill());
        drop(self.driver.wait());
        // Its profile is removed next, and a browser that still writes there would leave some of it.
        let deadline = Instant::now() + END_TIMEOUT;
        while !self.processes().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Where scripts/setup-ui.sh has put axe.
fn axe_path() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace");
    root.join("target/ui/node_modules/axe-core/axe.min.js")
}

/// Base64, as chromedriver writes pictures.
fn decoded(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => Some(u32::from(c - b'A')),
        b'a'..=b'z' => Some(u32::from(c - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(c - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(value).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let mut sum = 0;
        for digit in four {
            sum = sum << 6 | digit;
        }
        let missing = 4 - four.len();
        sum <<= 6 * u32::try_from(missing).expect("at most 4");
        bytes.extend(sum.to_be_bytes()[1..].iter().take(3 - missing));
    }
    bytes
}
