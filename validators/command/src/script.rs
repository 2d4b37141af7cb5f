//! The script that an interpreter is given.

/// How an interpreter reads its command line.
struct Interpreter {
    /// The beginnings of its names; versions may follow, as in `python3.12`.
    names: &'static [&'static str],
    /// Options whose value is the next word.
    with_value: &'static [&'static str],
    /// Options after which there is no script.
    no_script: &'static [&'static str],
    /// Options of one letter can be written together, such as `-ec`.
    clusters: bool,
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &["sh", "bash", "dash", "ash", "ksh", "zsh"],
        with_value: &["-o", "+o", "-O", "+O", "--rcfile", "--init-file"],
        no_script: &["-c", "-s"],
        clusters: true,
    },
    Interpreter {
        names: &["python", "pypy"],
        with_value: &["-W", "-X"],
        no_script: &["-c", "-m"],
        clusters: true,
    },
    Interpreter {
        names: &["node", "nodejs"],
        with_value: &["-r", "--require", "--import", "--loader", "-C", "--conditions"],
        no_script: &["-e", "--eval", "-p", "--print", "-pe"],
        clusters: false,
    },
    Interpreter {
        names: &["ruby"],
        with_value: &["-I", "-r", "-C"],
        no_script: &["-e"],
        clusters: false,
    },
    Interpreter { names: &["perl"], with_value: &["-I"], no_script: &["-e", "-E"], clusters: true },
];

/// The index of the word in a command that is the path of a script, if its program is a known
/// interpreter.
#[must_use]
pub fn find(command: &[String]) -> Option<usize> {
    let (program, words) = command.split_first()?;
    let name = program.rsplit('/').next()?;
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let known = INTERPRETERS.iter().find(|known| known.names.contains(&bare))?;
    let mut words = words.iter().zip(1..);
    while let Some((word, index)) = words.next() {
        if known.no_script.contains(&word.as_str())
            || (known.clusters && has_no_script(known, word))
        {
            return None;
        }
        if known.with_value.contains(&word.as_str()) {
            words.next();
        } else if !word.starts_with(['-', '+']) {
            // Anything else is more likely the value of an option that is not known here.
            return word.contains(['/', '.']).then_some(index);
        }
    }
    None
}

/// Whether options of one letter that are written together are followed by no script.
fn has_no_script(known: &Interpreter, word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    letters.is_some_and(|letters| {
        known.no_script.iter().any(|option| letters.ends_with(option.trim_start_matches('-')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_an_interpreter_runs() {
        let table: &[(&[&str], Option<usize>)] = &[
            (&["sh", "./test.sh"], Some(1)),
            (&["/bin/bash", "-eu", "-o", "pipefail", "ci/test.bash", "fast"], Some(4)),
            (&["bash", "test"], None),
            (&["sh", "-c", "./test.sh"], None),
            (&["sh", "-ec", "./test.sh"], None),
            (&["sh"], None),
            (&["python3.12", "-X", "dev", "check.py"], Some(3)),
            (&["python3", "-m", "pytest", "tests/a.py"], None),
            (&["node", "--test", "a.test.js"], Some(2)),
            (&["node", "--import", "./x.mjs", "a.js"], Some(3)),
            (&["node", "--import=./x.mjs", "a.js"], Some(2)),
            (&["node", "-e", "1.5"], None),
            (&["perl", "-we", "exit 0.5"], None),
            (&["ruby", "spec/run.rb"], Some(1)),
            (&["cargo", "test", "a.b"], None),
            (&["shellcheck", "a.sh"], None),
            (&[], None),
        ];
        for (command, index) in table {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(find(&command), *index, "{command:?}");
        }
    }
}
