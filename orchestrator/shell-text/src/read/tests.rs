use proptest::prelude::*;

use super::*;

/// Returns parts as text, with `(` and `)`; words in which the shell replaces something end in `?`, and what is written
/// stands after `>`.
fn describe<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Vec<String> {
    let mark = |word: &Word| format!("{}{}", word.text, if word.is_plain { "" } else { "?" });
    let parts = parts.into_iter().map(|part| match part {
        Part::Open => "(".to_owned(),
        Part::Close => ")".to_owned(),
        Part::Command(command) => {
            let words = command.words.iter().map(mark);
            let writes = command.writes.iter().map(|word| format!(">{}", mark(word)));
            words.chain(writes).collect::<Vec<_>>().join(" ")
        }
    });
    parts.collect()
}

#[test]
fn finds_the_commands_of_a_line() {
    for (text, parts) in [
        ("a -v && b", &["a -v", "b"][..]),
        ("a;b||c & d|e |& f\ng", &["a", "b", "c", "d", "e", "f", "g"]),
        ("( cd a && b ) ; c", &["(", "cd a", "b", ")", "c"]),
        ("! { a; }", &["a"]),
        ("if a; then b; else c; fi", &["a", "b", "c"]),
        ("for x in 1 2; do a $x; done; b", &["for x in 1 2", "a $x?", "b"]),
        ("a 2>&1 >out <in &>all b", &["a b >out >all"]),
        ("a >> b >| 'c d' >&e >&- 2> \"f\"", &["a >b >c d >e >f"]),
        ("> a", &[">a"]),
        ("a 'b c' \"d $e\" f\\ g ${h:-i}", &["a b c d $e? f g ${h:-i}?"]),
        ("a 'x\\y' \"\\n\\\"\\$\\\\\" \\n", &["a x\\y \\n\"$\\ n"]),
        ("a # && b\nc # d", &["a", "c"]),
        ("a \\\n b\\\nc", &["a bc"]),
        ("a b\\\\\nc", &["a b\\", "c"]),
        ("a 'b\\\nc' \"d\\\ne\"", &["a b\\\nc de"]),
        ("A=1 a x#y *.c ~/z {x,y}", &["A=1 a x#y *.c? ~/z? {x,y}"]),
        ("time -p a", &["time -p a"]),
        ("a 2 '' 'if' \\", &["a 2  if "]),
        ("", &[]),
    ] {
        let read = read_shell(text);
        assert_eq!(describe(read.known()), parts, "{text}");
        assert!(read.is_whole(), "{text}");
    }
}

/// What is known before the first thing that only a shell understands, and every command that can be seen. Each row
/// was read in another way by one of the readers that this one has replaced; in both columns the one that saw more, or
/// claimed to know less, has won.
#[test]
fn stops_knowing_where_only_a_shell_knows_and_sees_the_commands_behind_it() {
    for (text, known, seen) in [
        ("a; $(b) c", &["a"][..], &["a", "b", "$()? c"][..]),
        ("a; `b`; c", &["a"], &["a", "b", "$()?", "c"]),
        ("a && b \"$(c)\" d", &["a", "b"], &["a", "c", "b $()? d"]),
        ("a \"`b 'c'`\" d", &["a"], &["b c", "a $()? d"]),
        ("a $(b $(c) d) e", &["a"], &["c", "b $()? d", "a $()? e"]),
        ("a $(b; (c)) d", &["a"], &["b", "(", "c", ")", "a $()? d"]),
        ("a ${b:-$(c)} d", &["a"], &["c", "a ${b:-$()}? d"]),
        ("a; case x in y) b;; esac", &["a"], &["a", "case x in y", ")", "b", "esac"]),
        ("a; f() { b; }; c", &["a", "f"], &["a", "f", "(", ")", "b", "c"]),
        ("cat <<E\nb\nE\nc", &["cat"], &["cat", "b", "E", "c"]),
        ("sh <<'E'\nb > c\nE", &["sh"], &["sh", "b >c", "E"]),
        ("a <<<b", &["a"], &["a"]),
        ("a <(b) >(c)", &["a"], &["a", "(", "b", ")", "(", "c", ")"]),
        ("((a)); b", &[], &["(", "(", "a", ")", ")", "b"]),
        ("a 'b; c", &["a"], &["a b; c"]),
        ("a \"b; c", &["a"], &["a b; c"]),
        ("a $(b", &["a"], &["b", "a $()?"]),
        ("a `b", &["a"], &["b", "a $()?"]),
        ("a ${b", &["a"], &["a ${b?"]),
        ("`(`a", &[], &["(", "$()a?"]),
    ] {
        let read = read_shell(text);
        assert_eq!(describe(read.known()), known, "{text}");
        assert_eq!(describe(&read.parts), seen, "{text}");
        assert!(!read.is_whole(), "{text}");
    }
}

#[test]
fn nesting_without_end_is_read_to_an_end() {
    for open in ["$(", "`", "(", "\"$(", "${", "<("] {
        let _ = read_shell(&open.repeat(50_000));
    }
}

proptest! {
    #[test]
    fn any_text_is_read_to_an_end(text in "[ a$'\"\\\\`(){};&|<>#\n=]{0,40}|\\PC{0,40}") {
        let read = read_shell(&text);
        prop_assert!(read.parts.len() <= text.len() + 1);
        prop_assert!(read.known().len() <= text.len() + 1);
    }
}
