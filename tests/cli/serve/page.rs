//! The page in Chromium.

use std::fs;

use serde_json::Value;

use super::browser::{Browser, Tab};
use super::{HOSTILE, Server, completed, held};
use crate::controls::{Moment, Scene};
use crate::environment::TestEnvironment;

const DESK: (u32, u32) = (1280, 1000);
const PHONE: (u32, u32) = (360, 740);

fn open(browser: &mut Browser, server: &mut Server, size: (u32, u32), scheme: &str) -> Tab {
    let address = format!("http://{}/#token={}", server.address, server.token);
    let tab = browser.open(&address, size, scheme);
    browser.until(&tab, "document.querySelector('#story')?.childElementCount > 0");
    server.read_address();
    tab
}

fn browser(env: &TestEnvironment) -> Browser {
    Browser::start(&env.root().join("profile"))
}

#[test]
fn a_person_logs_in_and_sees_the_run_without_harm() {
    let env = completed();
    let mut server = Server::start(&env, &[]);
    let mut browser = browser(&env);
    for (scheme, size, name) in [
        ("light", DESK, "desk-light"),
        ("dark", DESK, "desk-dark"),
        ("light", PHONE, "phone-light"),
        ("dark", PHONE, "phone-dark"),
    ] {
        let token = server.token.clone();
        let tab = open(&mut browser, &mut server, size, scheme);
        browser.until(&tab, "document.querySelector('#headline').textContent === 'completed'");
        browser.until(&tab, "document.querySelectorAll('#iterations tr').length === 2");
        let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.eval(&tab, wide), 0, "{name} is wider than its window");
        browser.picture(&tab, name);
        // The text of the agent is shown as text, and nothing of it is carried out.
        browser.eval(
            &tab,
            "document.querySelector('[aria-label=\"transcript of iteration 1\"]').click()",
        );
        browser
            .until(&tab, "document.querySelector('#detail-text').textContent.includes('not yet')");
        let text = browser.eval(&tab, "document.querySelector('#detail-text').textContent");
        let text = text.as_str().unwrap();
        assert!(text.contains("<script>window.harmed = 1</script>"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
        assert_eq!(browser.eval(&tab, "String(window.harmed)"), "undefined");
        assert!(HOSTILE.contains("harmed"));
        browser.picture(&tab, &format!("{name}-transcript"));
        // Nothing keeps the token.
        let address = browser.eval(&tab, "location.href + document.cookie");
        assert_eq!(address, format!("http://{}/", server.address));
        let stored =
            "JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage)])";
        let stored = browser.eval(&tab, stored);
        assert!(!stored.as_str().unwrap().contains(&token), "{stored}");
        let history = browser.call(&tab, "Page.getNavigationHistory", &serde_json::json!({}));
        let entries = history["entries"].to_string();
        assert!(!entries.contains(&token), "{entries}");
    }
    for request in &browser.requests {
        let url = request["url"].as_str().unwrap();
        let is_own = url.starts_with(&format!("http://{}/", server.address)) || url == "data:,";
        assert!(is_own, "{url}");
        let referer = request["headers"].get("Referer").and_then(Value::as_str);
        assert_eq!(referer.unwrap_or_default(), "", "{request}");
    }
}

#[test]
fn a_person_without_the_token_is_asked_for_it() {
    let env = completed();
    let server = Server::start(&env, &[]);
    let mut browser = browser(&env);
    let tab = browser.open(&format!("http://{}/", server.address), PHONE, "light");
    browser.until(&tab, "document.querySelector('#login')?.hidden === false");
    browser.picture(&tab, "login");
    let enter = |text: &str| {
        format!(
            "document.querySelector('#secret').value = '{text}'; \
             document.querySelector('#login').requestSubmit()"
        )
    };
    browser.eval(&tab, &enter("guess"));
    browser.until(
        &tab,
        "document.querySelector('#login-problem').textContent.includes('not the token')",
    );
    browser.eval(&tab, &enter(&server.token));
    browser.until(&tab, "document.querySelector('#story').childElementCount > 0");
}

#[test]
fn all_is_reached_with_the_keyboard() {
    let scene = Scene::at(Moment::InAnIteration);
    let mut server = Server::start(&scene.env, &["--control"]);
    let mut browser = browser(&scene.env);
    let tab = open(&mut browser, &mut server, DESK, "light");
    browser.until(&tab, "!document.querySelector('#controls').hidden");
    browser.tab_to(&tab, "nav button");
    browser.tab_to(&tab, "#text");
    for letter in ["l", "o", "o", "k"] {
        browser.press(&tab, letter);
    }
    browser.tab_to(&tab, "button[value=steer]");
    browser.press(&tab, "Enter");
    browser.until(&tab, "document.querySelector('#outcome').textContent.startsWith('queued')");
    // What cannot be taken back is asked about first.
    browser.tab_to(&tab, "[data-control=stop]");
    browser.press(&tab, "Enter");
    browser.until(&tab, "document.querySelector('#ask').open");
    browser.picture(&tab, "question");
    browser.press(&tab, "Escape");
    browser.until(&tab, "!document.querySelector('#ask').open");
    assert_eq!(scene.env.status()["phase"], "running");
    browser.tab_to(&tab, "[name=max_iterations]");
    browser.press(&tab, "9");
    browser.press(&tab, "Enter");
    browser.until(&tab, "document.querySelector('#ask').open");
    browser.tab_to(&tab, "#ask [value=yes]");
    browser.press(&tab, "Enter");
    browser
        .until(&tab, "document.querySelector('#outcome').textContent.includes('limits are set')");
    let status = scene.env.status();
    assert_eq!(status["limits"]["max_iterations"], 9);
    assert_eq!(status["guidance"][0]["text"], "look");
    for (selector, name) in [("#story", "story"), ("#iterations button, .wide", "iterations")] {
        browser.tab_to(&tab, selector);
        let ring = "getComputedStyle(document.activeElement).outlineStyle";
        assert_eq!(browser.eval(&tab, ring), "solid", "the focus on the {name} is not visible");
    }
}

#[test]
fn two_tabs_steer_at_once_and_see_each_other() {
    let scene = Scene::at(Moment::InAnIteration);
    let mut server = Server::start(&scene.env, &["--control"]);
    let mut browser = browser(&scene.env);
    let tabs = [
        open(&mut browser, &mut server, DESK, "light"),
        open(&mut browser, &mut server, PHONE, "dark"),
    ];
    for (number, tab) in tabs.iter().enumerate() {
        browser.until(tab, "!document.querySelector('#controls').hidden");
        let steer = format!(
            "document.querySelector('#text').value = 'from tab {number}'; \
             document.querySelector('#say').requestSubmit(document.querySelector('[value=steer]'))"
        );
        browser.eval(tab, &steer);
    }
    for tab in &tabs {
        // One that is not in front asks for nothing.
        browser.show(tab);
        for number in 0..2 {
            let facts = "document.querySelector('#facts').textContent";
            browser.until(tab, &format!("{facts}.includes('from tab {number}')"));
        }
    }
}

#[test]
fn a_page_goes_on_when_its_server_was_killed() {
    let (env, gate, mut running) = held();
    let mut server = Server::start(&env, &[]);
    let mut browser = browser(&env);
    let tab = open(&mut browser, &mut server, DESK, "light");
    server.kill();
    browser
        .until(&tab, "document.querySelector('#connection').textContent.includes('no connection')");
    fs::write(&gate, "go").unwrap();
    running.wait().expect(0);
    // At the same address, with another token.
    let address = server.address.clone();
    let again = Server::of(&env, &["serve", "--listen", &address]);
    browser.until(&tab, "document.querySelector('#login')?.hidden === false");
    let log_in = format!(
        "document.querySelector('#secret').value = '{}'; \
         document.querySelector('#login').requestSubmit()",
        again.token
    );
    browser.eval(&tab, &log_in);
    browser.until(&tab, "document.querySelector('#headline').textContent === 'completed'");
    let rows = "Array.from(document.querySelectorAll('#story div'), row => row.textContent)";
    browser.until(&tab, &format!("{rows}.at(-1).includes('made green')"));
    let shown = browser.eval(&tab, &format!("{rows}.join('\\n')"));
    let log = env.ralph(&["log"]).expect(0).stdout;
    assert_eq!(shown.as_str().unwrap(), log.trim_end());
}
