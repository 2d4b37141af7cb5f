//! Keys: the path of names that leads to a value.

use toml::de::{DeTable, DeValue};

use crate::inline;

/// The names, and the indexes into arrays, that lead to a value.
pub(crate) type KeyPath = Vec<String>;

/// Returns the path as people write it: `limits.max_cost_usd`, `agents."my agent".adapter`.
pub(crate) fn dotted<S: AsRef<str>>(path: &[S]) -> String {
    path.iter().map(|part| inline::key_part(part.as_ref())).collect::<Vec<_>>().join(".")
}

/// Returns the opposite of [`dotted`]. `None` if `text` is not a key.
pub(crate) fn parse(text: &str) -> Option<KeyPath> {
    if text.contains('\n') {
        return None;
    }
    // It is a key if it is one in front of a value, and the value is ours.
    let document = format!("{text} = 0");
    let root = DeTable::parse(&document).ok()?;
    let mut path = KeyPath::new();
    let mut table = root.get_ref();
    loop {
        let (key, value) = table.iter().next()?;
        path.push(key.get_ref().clone().into_owned());
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => return (value.span().start + 1 == document.len()).then_some(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn odd_keys() {
        let path = ["agents", "my agent", "a\"b", "ключ", ""];
        let text = dotted(&path);
        assert_eq!(text, r#"agents."my agent"."a\"b"."ключ"."""#);
        assert_eq!(parse(&text).unwrap(), path);
        for bad in [
            "", ".", "a.", "a..b", "a b", "a = 1", "a\nb", "[a]", "[a]\nb", "#", "a = 1 #",
            "a = {b",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(path in prop::collection::vec("[a-z \"'.=#é\u{1}\u{7f}\n-]{0,5}", 1..4)) {
            prop_assert_eq!(parse(&dotted(&path)), Some(path));
        }
    }
}
