//! Settings of a `pom.xml`: the plugins that run tests, but for their versions, and properties that steer them.

use roxmltree::{Document, Node};

use super::settings::Settings;

pub(super) fn read(text: &str) -> Option<Settings> {
    let document = Document::parse(text).ok()?;
    let mut settings = Settings::new();
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        let parent = node.parent().map_or("", |parent| parent.tag_name().name());
        if name == "plugin" {
            let mut children = node.children();
            let id = children.find(|child| child.tag_name().name() == "artifactId");
            let id = id.and_then(|id| id.text()).unwrap_or_default().trim();
            if id.contains("surefire") || id.contains("failsafe") {
                add(&mut settings, id, &describe(node));
            }
        } else if matches!(name, "testSourceDirectory" | "testResource" | "module")
            || (parent == "properties" && is_steering_property(name))
        {
            add(&mut settings, name, &describe(node));
        }
    }
    Some(settings)
}

fn is_steering_property(name: &str) -> bool {
    let starts = ["skip", "maven.test", "surefire.", "failsafe."];
    let is_version = name.ends_with("version");
    matches!(name, "test" | "groups" | "excludedGroups" | "argLine")
        || (!is_version && starts.iter().any(|start| name.starts_with(start)))
}

fn add(settings: &mut Settings, key: &str, value: &str) {
    settings.entry(key.to_owned()).or_default().push_str(value);
}

/// Returns the elements and texts of a node, without its own version.
fn describe(node: Node<'_, '_>) -> String {
    let mut text = String::new();
    for inner in node.descendants() {
        let is_version =
            |one: Node<'_, '_>| one.tag_name().name() == "version" && one.parent() == Some(node);
        if is_version(inner) || inner.parent().is_some_and(is_version) {
            continue;
        }
        if inner.is_element() {
            text.push('<');
            text.push_str(inner.tag_name().name());
        } else if inner.is_text() {
            text.push('>');
            text.push_str(inner.text().unwrap_or_default().trim());
        }
    }
    text
}
