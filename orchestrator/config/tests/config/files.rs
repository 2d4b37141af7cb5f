//! Whether the files that a configuration names are there.

use std::fs;

use crate::Project;

fn said(project: &Project) -> Vec<String> {
    match project.loaded().check_files() {
        Ok(()) => Vec::new(),
        Err(errors) => {
            errors.errors().iter().map(|e| project.without_folder(&e.to_string())).collect()
        }
    }
}

#[test]
fn a_good_prompt() {
    let project = Project::trusting("");
    fs::write(project.path("PROMPT.md"), "Go.").unwrap();
    assert_eq!(said(&project), <[&str; 0]>::default());
    let text = Project::trusting("run.prompt_text = 'Go.'");
    assert_eq!(said(&text), <[&str; 0]>::default());
}

#[test]
fn bad_prompts() {
    let project = Project::trusting("run.prompt = 'p'");
    let prompt = project.path("p");
    assert_eq!(said(&project), ["ralph.toml:1:14: run.prompt: p: there is no such file"]);
    fs::write(&prompt, " \n").unwrap();
    assert_eq!(said(&project), ["ralph.toml:1:14: run.prompt: p is empty"]);
    fs::write(&prompt, b"caf\xe9").unwrap();
    assert_eq!(said(&project), ["ralph.toml:1:14: run.prompt: p: it is not UTF-8: byte 3 is 0xe9"]);
    let file = fs::File::create(&prompt).unwrap();
    file.set_len((8 << 20) + 1).unwrap();
    assert_eq!(
        said(&project),
        ["ralph.toml:1:14: run.prompt: p: it is larger than 8388608 bytes, the most that is read"]
    );
    fs::remove_file(&prompt).unwrap();
    fs::create_dir(&prompt).unwrap();
    assert_eq!(said(&project), ["ralph.toml:1:14: run.prompt: p: it is not a regular file"]);
}

#[test]
fn a_default_prompt_that_is_missing() {
    let project = Project::trusting("[run]");
    assert_eq!(said(&project), ["ralph.toml:1:1: run.prompt: PROMPT.md: there is no such file"]);
    let project = Project::trusting("");
    assert_eq!(said(&project), ["ralph.toml: run.prompt: PROMPT.md: there is no such file"]);
}

#[test]
fn workspaces_and_templates() {
    let project = Project::trusting("[run]\nprompt_text = 'x'\nworkspace = 'w'");
    assert_eq!(
        said(&project),
        [
            "ralph.toml:3:13: run.workspace: w does not exist; create it, or name a `template` for it"
        ]
    );
    fs::write(project.path("w"), "").unwrap();
    assert_eq!(said(&project), ["ralph.toml:3:13: run.workspace: w is not a folder"]);

    let project = Project::trusting("[run]\nprompt = 'w/p'\nworkspace = 'w'\ntemplate = 't'");
    assert_eq!(
        said(&project),
        [
            "ralph.toml:2:10: run.prompt: t/p: there is no such file",
            "ralph.toml:4:12: run.template: t is not a folder"
        ]
    );
    fs::create_dir(project.path("t")).unwrap();
    fs::write(project.path("t/p"), "from the template").unwrap();
    assert_eq!(said(&project), <[&str; 0]>::default());

    fs::create_dir(project.path("w")).unwrap();
    assert_eq!(said(&project), ["ralph.toml:2:10: run.prompt: w/p: there is no such file"]);
}
