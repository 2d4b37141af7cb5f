//! `report`: a run as a page in a file.

use std::fs;

use data_encoding::BASE64;
use serde_json::Value;

use crate::environment::TestEnvironment;
use crate::git::committed;
use crate::serve::HOSTILE;
use crate::serve::browser::{Browser, Tab};

const DESK: (u32, u32) = (1280, 1000);
const PHONE: (u32, u32) = (360, 740);
/// A picture of two colours.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAACgAAAAUCAIAAABwJOjsAAAAMUlEQVR42mP4sEUDGclVnEBGtJNlGLV4+FtMN5vQZEctHgEWj+bjUYtHS65Ri4ecxQClJfHdRM8dsgAAAABJRU5ErkJggg==";

/// A run that is completed in its third iteration: with costs, changes, a rejection, evidence and hostile text.
fn reported() -> TestEnvironment {
    let env = committed("checkpoint");
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
         output = \"claude-json\"\n[git]\ncommit = \"checkpoint\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"-c\", \"cat reason; test -e done\"]\n\
         [[validator]]\nkind = \"evidence-files\"\nmin_files = 2\nmin_image_size = 8\n",
    );
    fs::write(env.path("reason"), HOSTILE).unwrap();
    let says = |text: &str, cost: f64| {
        let usage = serde_json::json!({"input_tokens": 1200, "output_tokens": 300});
        let result = serde_json::json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s",
            "num_turns": 2, "duration_ms": 1, "duration_api_ms": 1, "total_cost_usd": cost, "result": text,
            "usage": usage});
        format!("{result}\n")
    };
    let done = "<promise>COMPLETE: made it</promise>";
    env.agent.call(1).script("echo two > a.txt\n").out(says("not yet", 0.25));
    env.agent
        .call(2)
        .script(
            "printf '<script>window.harmed = 1</script>\\n' > \"<img src=x onerror=harm()>.txt\"\n",
        )
        .out(says(done, 0.75));
    let evidence = format!(
        "touch done; mkdir validation-evidence; echo '42 passed' > validation-evidence/t.txt\n\
         printf '{PNG}' | base64 -d > validation-evidence/screen.png\n"
    );
    env.agent.default_call().script(&evidence).out(says(done, 0.5));
    env.run().expect(0);
    env
}

#[test]
fn a_page_has_the_whole_run_and_needs_nothing_else() {
    let env = reported();
    env.ralph(&["report", "--html", "run.html"]).expect(0).says("wrote run.html, ");
    let page = env.read("run.html");
    let tree = roxmltree::Document::parse_with_options(
        &page,
        roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
    )
    .unwrap();
    let has = |name: &str| tree.descendants().filter(|node| node.has_tag_name(name)).count();
    assert_eq!((has("script"), has("a") > 4, has("iframe"), has("object")), (0, true, 0, 0));
    for node in tree.descendants() {
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!name.starts_with("on") && name != "style", "{name}");
            let loads = ["src", "href"].contains(&name);
            assert!(!loads || value.starts_with("data:") || value.starts_with('#'), "{value}");
        }
    }
    let text: String = tree
        .descendants()
        .filter(roxmltree::Node::is_text)
        .filter_map(|node| node.text())
        .collect();
    for said in [
        "completed",
        "tests: accepted",
        "evidence-files: accepted",
        "$1.50",
        "COMPLETED",
        "rejected",
        "t.txt",
        "<script>window.harmed = 1</script>",
        "iteration 1: $0.2500",
        "the whole run, to iteration 3",
        "+two",
    ] {
        assert!(text.contains(said), "{said} is not in {text}");
    }
    assert!(!page.contains("<script") && !page.contains("<img src=x"));
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    // Every iteration that cost something has a bar, as high as that.
    let bars = tree.descendants().filter(|node| node.has_tag_name("rect"));
    let heights: Vec<f64> =
        bars.map(|bar| bar.attribute("height").unwrap().parse().unwrap()).collect();
    assert_eq!(heights.len(), 3);
    assert!(heights[1] > heights[2] && heights[2] > heights[0], "{heights:?}");
    let picture = tree.descendants().find(|node| node.has_tag_name("img")).unwrap();
    let source = picture.attribute("src").unwrap().strip_prefix("data:image/png;base64,").unwrap();
    assert_eq!(BASE64.decode(source.as_bytes()).unwrap(), BASE64.decode(PNG.as_bytes()).unwrap());
}

#[test]
fn a_page_is_written_whole_or_not_at_all() {
    let env = TestEnvironment::new();
    env.ralph(&["report", "--html", "run.html"]).expect(64).says("no run");
    assert!(!env.path("run.html").exists());
    env.ralph(&["report"]).expect(64).says("--html <FILE>");
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>");
    env.run().expect(0);
    env.write("run.html", "before");
    env.ralph(&["report", "--html", "missing/run.html"])
        .expect(64)
        .says("cannot write missing/run.html");
    assert!(!env.path("missing").exists());
    let run = env.status()["run"].as_str().unwrap().to_owned();
    env.ralph(&["report", "--html", "run.html", "--run", &run]).expect(0);
    let page = env.read("run.html");
    // Without a repository and without costs there is as much as there is.
    assert!(page.contains("has no checkpoints") && !page.contains("<svg"), "{page}");
    let names: Vec<_> = fs::read_dir(env.workspace()).unwrap().flatten().collect();
    assert!(names.iter().all(|name| !name.file_name().to_string_lossy().starts_with(".tmp")));
}

fn open(browser: &mut Browser, env: &TestEnvironment, size: (u32, u32), scheme: &str) -> Tab {
    let address = format!("file://{}", env.path("run.html").display());
    let tab = browser.open(&address, size, scheme);
    browser.until(&tab, "document.querySelector('footer') && document.readyState === 'complete'");
    tab
}

#[test]
fn a_page_is_readable_on_a_desk_and_a_phone_and_loads_nothing() {
    let env = reported();
    env.ralph(&["report", "--html", "run.html"]).expect(0);
    let mut browser = Browser::start(&env.root().join("profile"));
    for (scheme, size, name) in [
        ("light", DESK, "report-desk-light"),
        ("dark", DESK, "report-desk-dark"),
        ("light", PHONE, "report-phone-light"),
        ("dark", PHONE, "report-phone-dark"),
    ] {
        let tab = open(&mut browser, &env, size, scheme);
        let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.eval(&tab, wide), 0, "{name} is wider than its window");
        // The policy lets the style in, and pictures that are in the page.
        let ground = browser.eval(&tab, "getComputedStyle(document.body).backgroundColor");
        let expected = if scheme == "dark" { "rgb(13, 17, 23)" } else { "rgb(255, 255, 255)" };
        assert_eq!(ground, expected);
        assert_eq!(browser.eval(&tab, "document.images[0].naturalWidth"), 40);
        assert_eq!(browser.eval(&tab, "String(window.harmed)"), "undefined");
        browser.eval(&tab, "document.querySelector('details').open = true");
        browser.picture(&tab, name);
    }
    for request in &browser.requests {
        let url = request["url"].as_str().unwrap();
        assert!(url.starts_with("file://") || url.starts_with("data:"), "{url}");
        let referer = request["headers"].get("Referer").and_then(Value::as_str);
        assert_eq!(referer.unwrap_or_default(), "");
    }
}
