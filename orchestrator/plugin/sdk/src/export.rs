//! The macro `export_plugin!`, and the manifest that it computes at compile time.

/// Makes a plugin of a crate whose `crate-type` is `cdylib`: each item is its kind (`agent`, `detector`,
/// `validator` or `backlog`), its name, and how one is built from its table in the configuration.
///
/// ```
/// use ralph_orchestrator_plugin_sdk::{
///     Agent, AgentError, Description, EventSink, Iteration, Report, async_trait, export_plugin,
/// };
/// use std::collections::BTreeMap;
///
/// #[derive(serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Config {
///     before: String,
/// }
///
/// struct Echo(Config);
///
/// #[async_trait]
/// impl Agent for Echo {
///     fn describe(&self) -> Description {
///         Description { name: "echo".to_owned(), ..Description::default() }
///     }
///     async fn check(&self, _: &BTreeMap<String, String>) -> Result<String, AgentError> {
///         Ok("nothing is needed".to_owned())
///     }
///     async fn run(&self, task: Iteration, _: &dyn EventSink) -> Result<Report, AgentError> {
///         let said = format!("{}{}", self.0.before, String::from_utf8_lossy(&task.prompt));
///         Ok(Report { final_text: Some(said), ..Report::default() })
///     }
/// }
///
/// export_plugin! {
///     /// Says what it is told.
///     agent "echo", |config: Config| Ok(Echo(config));
/// }
/// # fn main() {}
/// ```
///
/// The table is read into the type of the closure's first parameter, which should
/// `#[serde(deny_unknown_fields)]`, so that a mistake in it is shown at its place. A second parameter,
/// if there is one, is the [`BuildContext`](crate::BuildContext). The closure returns a `Result` with a
/// [`BuildError`](crate::BuildError). A comment before the kind is the summary that people see; without
/// one it is the crate's description.
///
/// `agent "echo", schema = include_str!("echo.schema.json"), |config: Config| …` says the keys of the table
/// to editors: the text is the JSON Schema of the table, and part of `config schema -c ralph.toml`. What does
/// not fit it is a mistake at its place before the plugin is asked.
///
/// Use it once, in the crate that is the library; what other crates or tests use as well belongs into a
/// crate beside it.
#[macro_export]
macro_rules! export_plugin {
    ($(
        $(#[doc = $doc:literal])*
        $kind:ident $name:literal $(, schema = $schema:expr)?, |$config:tt : $table:ty $(, $context:ident)? $(,)?| $build:expr
    );+ $(;)?) => {
        #[cfg(panic = "abort")]
        ::core::compile_error!(
            "a plugin must be built with `panic = \"unwind\"`: with `abort` one panic would end the \
             orchestrator; remove `panic = \"abort\"` from the profile in Cargo.toml"
        );

        const _: () = {
            // Items have no hygiene: these names must not hide those of the author.
            use $crate::__private as __ralph;

            static __RALPH_ITEMS: &[__ralph::ItemDefinition] = &[$({
                fn __ralph_build(
                    table: __ralph::Value,
                    context: &$crate::BuildContext,
                ) -> ::core::result::Result<__ralph::BuiltItem, $crate::BuildError> {
                    let config = $crate::parse_config::<$table>(table)?;
                    let _ = context;
                    $( let $context: &$crate::BuildContext = context; )?
                    // A closure, so that `return` and `?` mean what they say.
                    #[allow(clippy::redundant_closure_call, reason = "see above")]
                    let built: ::core::result::Result<_, $crate::BuildError> = (move || {
                        let $config: $table = config;
                        $build
                    })();
                    ::core::result::Result::Ok($crate::export_plugin!(@boxed $kind built?))
                }
                __ralph::ItemDefinition {
                    kind: $crate::export_plugin!(@kind $kind),
                    name: $name,
                    summary: __ralph::summary(
                        &[$($doc),*],
                        ::core::env!("CARGO_PKG_DESCRIPTION"),
                    ),
                    schema: __ralph::schema(&[$($schema)?]),
                    build: __ralph_build,
                }
            }),+];
            const _: () = __ralph::check(&[$((::core::stringify!($kind), $name)),+]);

            const __RALPH_PARTS: &[__ralph::Part] = &[
                __ralph::Part::Raw("{\"name\":"),
                __ralph::Part::Text(::core::env!("CARGO_PKG_NAME")),
                __ralph::Part::Raw(",\"version\":"),
                __ralph::Part::Text(::core::env!("CARGO_PKG_VERSION")),
                __ralph::Part::Raw(",\"sdk\":"),
                __ralph::Part::Text(__ralph::SDK),
                __ralph::Part::Raw(",\"rustc\":"),
                __ralph::Part::Text(__ralph::RUSTC),
                __ralph::Part::Raw(",\"panic\":\"unwind\",\"provides\":["),
                $(
                    __ralph::Part::Separator,
                    __ralph::Part::Raw("{\"kind\":"),
                    __ralph::Part::Text(::core::stringify!($kind)),
                    __ralph::Part::Raw(",\"name\":"),
                    __ralph::Part::Text($name),
                    __ralph::Part::Raw(",\"summary\":"),
                    __ralph::Part::Text(__ralph::summary(
                        &[$($doc),*],
                        ::core::env!("CARGO_PKG_DESCRIPTION"),
                    )),
                    $(
                        __ralph::Part::Raw(",\"schema\":"),
                        __ralph::Part::Raw($schema),
                    )?
                    __ralph::Part::Raw("}"),
                )+
                __ralph::Part::Raw("]}"),
            ];
            const __RALPH_LENGTH: usize = __ralph::length(__RALPH_PARTS);

            /// What the plugin is, readable without loading it.
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, reason = "the symbol is named so")]
            pub static ralph_plugin_manifest: [u8; __RALPH_LENGTH] = __ralph::text::<__RALPH_LENGTH>(__RALPH_PARTS);

            static __RALPH_PLUGIN: __ralph::PluginDefinition = __ralph::PluginDefinition {
                name: ::core::env!("CARGO_PKG_NAME"),
                version: ::core::env!("CARGO_PKG_VERSION"),
                items: __RALPH_ITEMS,
            };

            /// # Safety
            /// As the interface says.
            unsafe extern "C" fn __ralph_open(
                host: *const __ralph::HostApi,
                out: *mut *mut ::core::ffi::c_void,
            ) -> i32 {
                // SAFETY: promised by the caller.
                unsafe { __ralph::open(&__RALPH_PLUGIN, host, out) }
            }

            /// What the orchestrator looks for.
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, reason = "the symbol is named so")]
            pub static ralph_plugin_decl: __ralph::PluginDecl =
                __ralph::decl(&ralph_plugin_manifest, __ralph_open);
        };
    };

    (@kind agent) => { $crate::__private::ItemKind::Agent };
    (@kind detector) => { $crate::__private::ItemKind::Detector };
    (@kind validator) => { $crate::__private::ItemKind::Validator };
    (@kind backlog) => { $crate::__private::ItemKind::Backlog };
    (@boxed agent $built:expr) => {
        $crate::__private::BuiltItem::Agent(::std::boxed::Box::new($built))
    };
    (@boxed detector $built:expr) => {
        $crate::__private::BuiltItem::Detector(::std::boxed::Box::new($built))
    };
    (@boxed validator $built:expr) => {
        $crate::__private::BuiltItem::Validator(::std::boxed::Box::new($built))
    };
    (@boxed backlog $built:expr) => {
        $crate::__private::BuiltItem::Backlog(::std::boxed::Box::new($built))
    };
}

/// A piece of the manifest.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// JSON.
    Raw(&'static str),
    /// A text, to be quoted and escaped.
    Text(&'static str),
    /// A comma, unless it would be the first thing in a list.
    Separator,
}

/// The first line of the documentation of an item, or what else there is.
#[must_use]
pub const fn summary(docs: &[&'static str], otherwise: &'static str) -> &'static str {
    match docs {
        [first, ..] => first.trim_ascii(),
        [] => otherwise,
    }
}

/// The JSON Schema of an item, if it has one.
#[must_use]
pub const fn schema(given: &[&'static str]) -> Option<&'static str> {
    match given {
        [schema, ..] => Some(schema),
        [] => None,
    }
}

/// The longest name of an item, in bytes.
const LONGEST_NAME: usize = 64;

/// Does not compile if a name cannot be written in a configuration, or is there twice.
#[allow(clippy::panic, reason = "it is how a constant says that it cannot be")]
pub const fn check(items: &[(&'static str, &'static str)]) {
    let mut rest = items;
    while let [(kind, name), others @ ..] = rest {
        assert!(is_name(name), "the name of an item has 1 to 64 letters, digits, `-` and `_`");
        let mut others_left = others;
        while let [(other_kind, other_name), more @ ..] = others_left {
            let same = equal(kind, other_kind) && equal(name, other_name);
            assert!(!same, "two items of one kind have the same name");
            others_left = more;
        }
        rest = others;
    }
}

const fn is_name(name: &str) -> bool {
    let mut rest = name.as_bytes();
    let good = !rest.is_empty() && rest.len() <= LONGEST_NAME;
    while let [byte, others @ ..] = rest {
        if !(byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_') {
            return false;
        }
        rest = others;
    }
    good
}

const fn equal(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while let ([first_a, rest_a @ ..], [first_b, rest_b @ ..]) = (a, b) {
        if *first_a != *first_b {
            return false;
        }
        (a, b) = (rest_a, rest_b);
    }
    a.is_empty() && b.is_empty()
}

/// How long the text of these parts is.
#[must_use]
pub const fn length(parts: &[Part]) -> usize {
    let mut writer = Writer::<0> { to: [], at: 0, last: 0 };
    writer.parts(parts);
    writer.at
}

/// The text of these parts, whose length `N` has to be.
#[must_use]
pub const fn text<const N: usize>(parts: &[Part]) -> [u8; N] {
    let mut writer = Writer { to: [0; N], at: 0, last: 0 };
    writer.parts(parts);
    writer.to
}

/// Writes as far as there is room, and counts on.
struct Writer<const N: usize> {
    to: [u8; N],
    at: usize,
    last: u8,
}

impl<const N: usize> Writer<N> {
    const fn parts(&mut self, parts: &[Part]) {
        let mut rest = parts;
        while let [part, others @ ..] = rest {
            match part {
                Part::Raw(json) => self.raw(json.as_bytes()),
                Part::Text(text) => self.quoted(text.as_bytes()),
                Part::Separator if self.last == b'[' => {}
                Part::Separator => self.byte(b','),
            }
            rest = others;
        }
    }

    const fn raw(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let [byte, others @ ..] = rest {
            self.byte(*byte);
            rest = others;
        }
    }

    const fn quoted(&mut self, bytes: &[u8]) {
        const HEX: [u8; 16] = *b"0123456789abcdef";
        self.byte(b'"');
        let mut rest = bytes;
        while let [byte, others @ ..] = rest {
            match *byte {
                b'"' | b'\\' => {
                    self.byte(b'\\');
                    self.byte(*byte);
                }
                control @ 0..0x20 => {
                    self.raw(b"\\u00");
                    self.byte(b'0' + (control >> 4));
                    let (_, low) = HEX.split_at((control & 0xf) as usize);
                    if let [digit, ..] = low {
                        self.byte(*digit);
                    }
                }
                other => self.byte(other),
            }
            rest = others;
        }
        self.byte(b'"');
    }

    const fn byte(&mut self, byte: u8) {
        if self.at < N {
            let (_, rest) = self.to.split_at_mut(self.at);
            if let [place, ..] = rest {
                *place = byte;
            }
        }
        self.at += 1;
        self.last = byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_texts_come_out_of_the_manifest_as_they_went_in() {
        const ODD: &str = "say \"hi\" \\ or\ttab\nline\u{1f} ü €";
        const PARTS: &[Part] = &[
            Part::Raw("["),
            Part::Separator,
            Part::Text(ODD),
            Part::Separator,
            Part::Text(""),
            Part::Raw("]"),
        ];
        const TEXT: [u8; length(PARTS)] = text(PARTS);
        let read: Vec<String> = serde_json::from_slice(&TEXT).unwrap();
        assert_eq!(read, [ODD, ""]);
    }

    #[test]
    fn a_name_is_one_that_a_configuration_can_hold() {
        assert!(is_name("my-agent_2"));
        assert!(is_name(&"x".repeat(64)));
        for bad in ["", "a b", "a/b", "ä", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn the_first_line_of_the_comment_is_the_summary() {
        assert_eq!(summary(&[" One.", " Two."], "else"), "One.");
        assert_eq!(summary(&[], "else"), "else");
    }

    #[test]
    fn two_of_a_kind_need_two_names() {
        check(&[("agent", "a"), ("detector", "a"), ("agent", "b")]);
        std::panic::catch_unwind(|| check(&[("agent", "a"), ("detector", "x"), ("agent", "a")]))
            .unwrap_err();
    }
}
