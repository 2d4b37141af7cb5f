//! Python's tracebacks.

/// Follows the lines of a text through a traceback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Traceback {
    /// Outside.
    #[default]
    Outside,
    /// Its first line was seen; a frame has to follow.
    Begun(Style),
    /// At least one frame was seen.
    Frames(Style),
}

/// How its lines begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    /// That of an exception group.
    Group,
}

impl Style {
    fn inner(self, line: &str) -> Option<&str> {
        match self {
            Self::Plain => Some(line),
            Self::Group => line.strip_prefix("  | "),
        }
    }
}

impl Traceback {
    /// Takes the next line; whether it names the exception at the end of a traceback.
    pub(super) fn ends_with(&mut self, line: &str) -> bool {
        let begun = match line {
            "Traceback (most recent call last):" => Some(Style::Plain),
            "  + Exception Group Traceback (most recent call last):" => Some(Style::Group),
            _ => None,
        };
        let (next, ended) = match (*self, begun) {
            (_, Some(style)) => (Self::Begun(style), false),
            (Self::Outside, None) => (Self::Outside, false),
            (Self::Begun(style), None) => match style.inner(line) {
                Some(inner) if is_frame(inner) => (Self::Frames(style), false),
                _ => (Self::Outside, false),
            },
            (Self::Frames(style), None) => match style.inner(line) {
                Some(inner) if inner.starts_with("  ") => (Self::Frames(style), false),
                Some(inner) => (Self::Outside, is_exception(inner)),
                None => (Self::Outside, false),
            },
        };
        *self = next;
        ended
    }
}

/// `  File "main.py", line 3, in <module>`
fn is_frame(line: &str) -> bool {
    let Some((_, rest)) =
        line.strip_prefix("  File \"").and_then(|rest| rest.split_once("\", line "))
    else {
        return false;
    };
    let number = rest.split_once(", in ").map_or(rest, |(number, _)| number);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// `KeyError`, `subprocess.CalledProcessError: …`
fn is_exception(line: &str) -> bool {
    let name = line.split_once(':').map_or(line, |(name, _)| name);
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    name.split('.').all(is_part)
}
