//! The pages in a real browser: light and dark, wide and on a narrow telephone, on paper, without a script, and with names that
//! would be scripts if they could.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use e2e::binary;
use serde_json::json;

use super::{Stage, of, page};

const HOSTILE: &str = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";
const BROWSER: &str = "chromium";

/// One look at a page.
struct Look<'a> {
    scheme: &'a str,
    /// As Chromium's `preferredColorScheme` numbers them.
    number: u8,
    width: u16,
}

const LOOKS: [Look<'_>; 4] = [
    Look { scheme: "light", number: 1, width: 1200 },
    Look { scheme: "dark", number: 0, width: 1200 },
    Look { scheme: "light", number: 1, width: 320 },
    Look { scheme: "dark", number: 0, width: 320 },
];

/// A browser with a profile of its own, which asks nobody but the page.
struct Browser {
    profile: PathBuf,
}

impl Browser {
    /// One that runs scripts, or not.
    fn new(profile: PathBuf, scripts: bool) -> Result<Self> {
        let allowed = if scripts { 1 } else { 2 };
        let preferences =
            json!({ "profile": { "default_content_setting_values": { "javascript": allowed } } });
        std::fs::create_dir_all(profile.join("Default"))?;
        std::fs::write(profile.join("Default/Preferences"), preferences.to_string())?;
        Ok(Self { profile })
    }

    fn run(&self, arguments: &[String]) -> Result<Output> {
        let mut command = Command::new(BROWSER);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
        ]);
        command.args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"]);
        command.args(["--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0"]);
        command.arg(format!("--user-data-dir={}", self.profile.display())).args(arguments);
        let output = command.output().with_context(|| format!("run {BROWSER}: Debian package chromium"))?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(!log.contains("Content Security Policy"), "a policy refuses a part of the page: {log}");
        Ok(output)
    }

    /// The page as it is once everything in it has run.
    fn dom(&self, url: &str) -> Result<String> {
        let output = self.run(&["--dump-dom".to_owned(), url.to_owned()])?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Where pictures are kept for whoever wants to look.
fn pictures() -> Result<PathBuf> {
    let test = std::env::current_exe().context("find the running test")?;
    let target = test.ancestors().nth(3).context("a test outside a target folder")?;
    let folder = target.join("status-pages");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[tokio::test]
#[ignore = "two minutes of a browser, which not everybody has; `make soak` runs it"]
async fn soak_the_pages_look_right_in_a_browser_and_run_nobody_elses_script() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let stage = Stage::start(HOSTILE).await?;
    stage.settled().await?;
    let (folder, site) = (pictures()?, &stage.site);
    let without_scripts = Browser::new(site.dir().join("without"), false)?;
    let with_scripts = Browser::new(site.dir().join("with"), true)?;
    let pages = [
        ("all", "status".to_owned()),
        ("broken", of(&site.url("/refused"), "issuer")),
        ("waiting", of(&site.url("/waiting"), "issuer")),
        ("healthy", of(&site.url("/well"), "issuer")),
    ];
    for (name, path) in &pages {
        let url = site.admin_url(path);
        let saved = folder.join(format!("{name}.html"));
        std::fs::write(&saved, page(site, path).await?)?;
        for look in &LOOKS {
            let picture = folder.join(format!("{name}-{}-{}.png", look.scheme, look.width));
            shoot(&without_scripts, &url, &picture, look)?;
            measure(&with_scripts, &saved, look)?;
        }
        let printed = folder.join(format!("{name}.pdf"));
        print(&without_scripts, &url, &printed)?;
        runs_no_script(&without_scripts, &with_scripts, &saved)?;
    }
    println!("pictures are in {}", folder.display());
    Ok(())
}

/// A file that was not there before, so that it is this run's.
fn made(file: &Path, make: impl FnOnce() -> Result<Output>) -> Result<()> {
    _ = std::fs::remove_file(file);
    make()?;
    let bytes =
        std::fs::metadata(file).with_context(|| format!("nothing was made: {}", file.display()))?.len();
    ensure!(bytes > 10_000, "{} has {bytes} bytes", file.display());
    Ok(())
}

/// Takes a picture of the page as it is served.
fn shoot(browser: &Browser, url: &str, picture: &Path, look: &Look<'_>) -> Result<()> {
    let height = if look.width < 500 { 3200 } else { 1600 };
    let arguments = [
        format!("--screenshot={}", picture.display()),
        format!("--window-size={},{height}", look.width),
        format!("--blink-settings=preferredColorScheme={}", look.number),
        url.to_owned(),
    ];
    made(picture, || browser.run(&arguments))
}

fn print(browser: &Browser, url: &str, printed: &Path) -> Result<()> {
    let to = format!("--print-to-pdf={}", printed.display());
    made(printed, || browser.run(&[to, "--no-pdf-header-footer".to_owned(), url.to_owned()]))
}

/// Holds the page as it is laid out against the rules: nothing is wider than the window, every text stands out from what is
/// behind it, and what can be pressed is large enough.
fn measure(browser: &Browser, saved: &Path, look: &Look<'_>) -> Result<()> {
    let ruler = std::path::absolute("tests/service/status/measure.html")?;
    let url = format!("file://{}#width={}&page=file://{}", ruler.display(), look.width, saved.display());
    let output = browser.run(&[
        "--dump-dom".to_owned(),
        "--allow-file-access-from-files".to_owned(),
        format!("--blink-settings=preferredColorScheme={}", look.number),
        "--window-size=1400,1600".to_owned(),
        url,
    ])?;
    let dom = String::from_utf8_lossy(&output.stdout);
    let said = dom.split_once("<pre id=\"said\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (said, _) = said.with_context(|| format!("no ruler in {dom}"))?;
    let expected = format!("width {}, background {}", look.width, look.scheme);
    ensure!(said.starts_with(&expected) && said.contains("texts "), "{expected}: {said}");
    ensure!(!said.contains("wrong:"), "{} {expected}: {said}", saved.display());
    Ok(())
}

/// Opens the page outside of the policy that it is served with, so that a script in it would run, and finds the same page as a
/// browser that runs none.
fn runs_no_script(without: &Browser, with: &Browser, saved: &Path) -> Result<()> {
    let url = format!("file://{}", saved.display());
    let (dom, same) = (without.dom(&url)?, with.dom(&url)?);
    ensure!(dom == same, "a script has changed the page: {same}");
    ensure!(dom.contains(" - Chancery</title>"), "{dom}");
    ensure!(!dom.contains("<script") && !dom.contains("<img"), "a name became a part of the page: {dom}");
    Ok(())
}
