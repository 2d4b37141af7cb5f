//! What a JUnit XML report says. There is no standard: test cases are counted themselves, because not
//! everybody writes the attributes with their numbers, and some write wrong ones.

use roxmltree::{Document, Node, ParsingOptions};

/// The most elements that are read.
const NODES: u32 = 4_000_000;

/// What ran, and what became of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) tests: u64,
    pub(crate) skipped: u64,
    /// The names of those that failed, in the report's order.
    pub(crate) failed: Vec<String>,
}

impl Report {
    /// Reads one.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let options = ParsingOptions { nodes_limit: NODES, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options);
        let document = document.map_err(|error| error.to_string())?;
        let root = document.root_element();
        let name = root.tag_name().name();
        if name != "testsuites" && name != "testsuite" {
            return Err(format!(
                "it begins with <{name}> and not with <testsuites> or <testsuite>"
            ));
        }
        let mut report = Self::default();
        for case in root.descendants().filter(|node| node.has_tag_name("testcase")) {
            report.tests += 1;
            if has(case, "failure") || has(case, "error") {
                report.failed.push(called(case));
            } else if has(case, "skipped") {
                report.skipped += 1;
            }
        }
        // What broke outside of any test, such as what comes before all of them.
        for suite in root.descendants().filter(|node| node.has_tag_name("testsuite")) {
            if has(suite, "error") || has(suite, "failure") {
                report.failed.push(format!("suite {}", called(suite)));
            }
        }
        // Cases that failed may be left out, and only be counted.
        if report.failed.is_empty() {
            for node in root.descendants().filter(Node::is_element) {
                let counted = ["failures", "errors"].iter().any(|key| number(node, key) > 0);
                if counted {
                    report.failed.push(format!("those that {} counts", called(node)));
                }
            }
        }
        Ok(report)
    }
}

fn has(node: Node<'_, '_>, child: &str) -> bool {
    node.children().any(|node| node.has_tag_name(child))
}

fn called(node: Node<'_, '_>) -> String {
    let name = node.attribute("name").unwrap_or("(no name)");
    match node.attribute("classname") {
        Some(class) if !class.is_empty() => format!("{class}::{name}"),
        _ => name.to_owned(),
    }
}

fn number(node: Node<'_, '_>, key: &str) -> u64 {
    node.attribute(key).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
