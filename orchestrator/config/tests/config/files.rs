//! Whether the files that a configuration names are there.

use std::fs;
use std::path::Path;

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

#[test]
fn a_run_in_another_folder_has_what_lies_in_the_workspace_there_and_the_rest_where_it_is() {
    let project = Project::trusting(
        "[run]\nprompt = 'w/sub/p.md'\nworkspace = 'w'\n\
         [agent]\ninputs = ['w/mcp.json', 'mcp.json']\n\
         [prompts]\npaths = ['{project}/prompts/{name}.md', 'own/{name}.md', 'built-in']\n\
         [sandbox]\nread = ['w/cache', 'shared']\nwrite = ['w/out']\n",
    );
    let loaded = project.loaded();
    let (dir, there) = (project.dir.path().to_owned(), Path::new("/trees/one"));
    let moved = loaded.clone().in_folder(there);
    assert_eq!(moved.config.run.workspace, there);
    assert_eq!(moved.configured_workspace(), dir.join("w"));
    assert_eq!(moved.config.run.prompt, Some(there.join("sub/p.md")));
    assert_eq!(moved.config.agent.inputs, [there.join("mcp.json"), dir.join("mcp.json")]);
    let prompts = moved.config.prompts.as_ref().unwrap();
    let own = dir.join("own/{name}.md").display().to_string();
    assert_eq!(prompts.paths, ["/trees/one/prompts/{name}.md", &own, "built-in"]);
    assert_eq!(moved.config.sandbox.read, [dir.join("shared")]);
    assert!(moved.config.sandbox.write.is_empty());
    assert_eq!(moved.dir(), dir, "the configuration lies outside of the workspace");
    assert_eq!(moved.resolved_toml(), loaded.resolved_toml());
}

#[test]
fn a_configuration_in_the_workspace_has_its_relative_paths_in_the_other_folder() {
    let project = Project::trusting("[run]\nprompt = 'p.md'\n");
    let moved = project.loaded().in_folder(Path::new("/trees/one"));
    assert_eq!(moved.dir(), Path::new("/trees/one"));
    assert_eq!(moved.prompt_dir(), Path::new("/trees/one"));
    assert_eq!(
        moved.configuration(),
        Some(project.dir.path().canonicalize().unwrap().join("ralph.toml"))
    );
}

#[test]
fn a_link_out_of_the_workspace_stays_where_it_leads() {
    let project = Project::trusting("[run]\nprompt = 'p.md'\n");
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path().join("p.md"), project.dir.path().join("p.md"))
        .unwrap();
    fs::write(outside.path().join("p.md"), "x").unwrap();
    let moved = project.loaded().in_folder(Path::new("/trees/one"));
    assert_eq!(moved.config.run.prompt, Some(project.dir.path().join("p.md")));
}
