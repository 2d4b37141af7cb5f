//! Prompts as templates: a fixed list of variables, each of which has to be known.

use std::fmt;
use std::io::{self, Write};

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, Value};

/// The names that a template may use.
const VARIABLES: [&str; 5] = ["role", "iteration", "max_iterations", "workspace", "task"];
const TASK: &str = "task";
/// The most steps of rendering: agents may be able to edit a template.
const MOST_STEPS: u64 = 100_000;
/// The longest prompt that a template may make, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// What is known of an iteration before it starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateVariables<'a> {
    pub(crate) role: &'a str,
    pub(crate) iteration: u64,
    /// None without such a limit.
    pub(crate) max_iterations: Option<u64>,
    pub(crate) workspace: String,
    /// The text of `run.prompt` or `run.prompt_text`; empty without one.
    pub(crate) task: &'a str,
}

impl TemplateVariables<'_> {
    fn to_value(&self) -> Value {
        Value::from_pairs([
            ("role", Value::from(self.role)),
            ("iteration", Value::from(self.iteration)),
            ("max_iterations", self.max_iterations.map_or(Value::from(()), Value::from)),
            ("workspace", Value::from(self.workspace.as_str())),
            (TASK, Value::from(self.task)),
        ])
    }
}

/// Where a template is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    line: usize,
    message: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

impl From<minijinja::Error> for TemplateError {
    fn from(error: minijinja::Error) -> Self {
        let detail = error.detail().map(str::to_owned);
        let message = detail.unwrap_or_else(|| error.kind().to_string());
        Self { line: error.line().unwrap_or(1), message }
    }
}

/// Checks that a template can be read, and that it uses no unknown name, on whichever branch.
pub(super) fn check(source: &[u8]) -> Result<(), TemplateError> {
    let text = text(source)?;
    let environment = environment()?;
    let template = environment.template_from_str(text)?;
    let mut unknown: Vec<String> = template.undeclared_variables(false).into_iter().collect();
    unknown.retain(|name| !VARIABLES.contains(&name.as_str()));
    unknown.sort_by_key(|name| line_of(text, name));
    if let Some(name) = unknown.first() {
        let message = format!("unknown variable `{name}`; known are: {}", VARIABLES.join(", "));
        return Err(TemplateError { line: line_of(text, name), message });
    }
    // Filters and functions, of which there are none, are found only then.
    let sample = TemplateVariables { iteration: 1, max_iterations: Some(1), ..Default::default() };
    render(source, &sample).map(drop)
}

/// Renders a template. The second value says whether it used the task.
pub(super) fn render(
    source: &[u8],
    variables: &TemplateVariables<'_>,
) -> Result<(Vec<u8>, bool), TemplateError> {
    let environment = environment()?;
    let template = environment.template_from_str(text(source)?)?;
    let has_task = template.undeclared_variables(false).contains(TASK);
    let mut output = BoundedOutput(Vec::new());
    template.render_captured_to(variables.to_value(), &mut output)?;
    Ok((output.0, has_task))
}

/// Without filters and functions: what a template can do is to place what is known.
fn environment() -> Result<Environment<'static>, TemplateError> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().keep_trailing_newline(true).build()?);
    environment.set_fuel(Some(MOST_STEPS));
    Ok(environment)
}

fn text(source: &[u8]) -> Result<&str, TemplateError> {
    std::str::from_utf8(source).map_err(|error| {
        let before = source.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        TemplateError { line, message: "not UTF-8, as a template has to be".to_owned() }
    })
}

/// Returns the first line in which a name stands.
fn line_of(text: &str, name: &str) -> usize {
    let is_word = |line: &str| {
        line.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .any(|word| word == name)
    };
    text.lines().position(is_word).map_or(1, |index| index + 1)
}

struct BoundedOutput(Vec<u8>);

impl Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::Error::other("the rendered prompt is larger than 8 MiB"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(source: &str) -> Result<String, TemplateError> {
        let variables = TemplateVariables {
            role: "coding",
            iteration: 3,
            max_iterations: Some(15),
            workspace: "/w".to_owned(),
            task: "do {{ it }}",
        };
        render(source.as_bytes(), &variables).map(|(bytes, _)| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn places_what_is_known_and_nothing_twice() {
        let source = "{role} {{ iteration }}/{{ max_iterations }}\r\n{{ task }} <&>\n";
        assert_eq!(rendered(source).unwrap(), "{role} 3/15\r\ndo {{ it }} <&>\n");
        assert!(render(b"{{ task }}", &TemplateVariables::default()).unwrap().1);
        assert!(!render(b"task", &TemplateVariables::default()).unwrap().1);
    }

    #[test]
    fn an_unknown_name_is_found_on_every_branch() {
        let error =
            check(b"a\n{% if iteration > 100 %}\n{{ itreation }}\n{% endif %}").unwrap_err();
        assert_eq!(error.line, 3);
        assert!(error.message.contains("`itreation`"), "{error}");
        assert!(check(b"{{ iteration").is_err());
        assert!(check(b"ok\n\xff").unwrap_err().to_string().starts_with("2: not UTF-8"));
        assert!(check(b"no template at all").is_ok());
    }

    #[test]
    fn rendering_ends() {
        let nested = "{% for a in [1,2,3,4,5,6,7,8] %}".repeat(9) + "x" + &"{% endfor %}".repeat(9);
        assert!(rendered(&nested).is_err());
        assert!(rendered("{{ task.missing }}").is_err());
    }
}
