//! The page: one document without anything from elsewhere, and the policy that lets nothing else run.

use data_encoding::BASE64;
use sha2::{Digest as _, Sha256};

const DOCUMENT: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The page, and its content security policy.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) html: String,
    pub(crate) policy: String,
}

impl Page {
    pub(crate) fn new() -> Self {
        let html = DOCUMENT.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT);
        let hash = |text: &str| BASE64.encode(&Sha256::digest(text.as_bytes()));
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'; trusted-types 'none'",
            hash(SCRIPT),
            hash(STYLE),
        );
        Self { html, policy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_inserts_text_as_text() {
        let page = Page::new();
        assert!(page.html.contains(STYLE) && page.html.contains(SCRIPT));
        for sink in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!page.html.contains(sink), "{sink}");
        }
        for elsewhere in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.html.contains(elsewhere), "{elsewhere}");
        }
        // An attribute is not covered by the hashes, so it would have no effect.
        assert!(!page.html.contains(" style=") && !page.html.contains(" onclick="));
    }
}
