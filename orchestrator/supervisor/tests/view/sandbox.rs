//! A sandbox within a view: it holds there, and for what the view is made of.

use std::fs;
use std::path::PathBuf;

use ralph_orchestrator_supervisor::{Sandbox, SpawnError, Supervisor};

use crate::fixture::{Fixture, plain_supervisor, run};

/// What every shell needs.
fn sandbox() -> Sandbox {
    let system = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc"];
    Sandbox {
        read: system.map(PathBuf::from).to_vec(),
        write: vec!["/dev/null".into()],
        ..Sandbox::default()
    }
}

fn confined(fixture: &Fixture, sandbox: Sandbox) -> Supervisor {
    plain_supervisor().with_view(fixture.view()).with_sandbox(move || Ok(sandbox.clone()))
}

/// A workspace whose overlay has a layer of its own.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    let top = fixture.folder("top");
    fs::create_dir_all(fixture.ws.join("src")).unwrap();
    for path in [fixture.ws.join("src/lower"), fixture.ws.join("file"), top.join("upper")] {
        fs::write(path, "x").unwrap();
    }
    fixture.overlay.layers.insert(0, top);
    fixture
}

#[tokio::test]
async fn what_the_sandbox_opens_works_through_the_overlay() {
    let fixture = fixture();
    let mut sandbox = sandbox();
    sandbox.write.push(fixture.ws.clone());
    let text =
        "set -e; cat src/lower file upper; echo y > src/lower; echo n > src/new; mv src/new moved
        rm file; mkdir d; mv d src/d; ln -s moved link; cat link src/lower; : > upper; ls";
    let ran = run(&confined(&fixture, sandbox), fixture.sh(text)).await.unwrap();
    assert_eq!(ran.stdout, "xxxn\ny\nlink\nmoved\nsrc\nupper\n", "{ran:?}");
    assert_eq!(fs::read_to_string(fixture.ws.join("src/lower")).unwrap(), "x");
    assert_eq!(fs::read_to_string(fixture.overlay.upper.join("src/lower")).unwrap(), "y\n");
}

#[tokio::test]
async fn what_the_sandbox_does_not_open_stays_closed() {
    let fixture = fixture();
    let folder = fixture.folder("");
    let store = fixture.overlay.upper.parent().unwrap().to_owned();
    fs::write(folder.join("beside"), "").unwrap();
    let closed =
        [folder.join("beside"), folder.join("top/upper"), store.join("upper"), store.join("work")];
    let list = closed.map(|path| format!("'{}'", path.display())).join(" ");
    let text = format!(
        "for f in {list}; do if [ -d $f ]; then ls $f; else cat $f; fi 2>/dev/null && echo $f; (echo > $f/x || echo > $f) 2>/dev/null && echo $f; done
        cat file"
    );
    let mut open = sandbox();
    open.write.push(fixture.ws.clone());
    let ran = run(&confined(&fixture, open), fixture.sh(&text)).await.unwrap();
    assert_eq!((ran.stdout.as_str(), ran.code), ("x", Some(0)), "{ran:?}");
    // Nor does the overlay open what it lies over.
    let text = "cat file 2>/dev/null || echo closed; (echo > new) 2>/dev/null || echo closed; ls 2>/dev/null || echo closed";
    let ran = run(&confined(&fixture, sandbox()), fixture.sh(text)).await.unwrap();
    assert_eq!(ran.stdout, "closed\nclosed\nclosed\n", "{ran:?}");
    assert!(!fixture.overlay.upper.join("new").exists());
}

#[tokio::test]
async fn what_the_sandbox_leaves_out_is_left_out_of_what_is_merged() {
    let fixture = fixture();
    let top = fixture.folder("top");
    for path in ["kept", "secret"] {
        // Only the layer has them.
        fs::write(top.join(path), path).unwrap();
    }
    let mut sandbox = sandbox();
    sandbox.write.push(fixture.ws.clone());
    sandbox.keep.push(fixture.ws.join("kept"));
    sandbox.hide.push(fixture.ws.join("secret"));
    let text = "cat kept; echo; (echo > kept) 2>/dev/null || echo kept; cat secret 2>/dev/null || echo hidden
        mv kept other 2>/dev/null || echo stays; echo > src/new; echo > upper; cat file";
    let ran = run(&confined(&fixture, sandbox), fixture.sh(text)).await.unwrap();
    assert_eq!(ran.stdout, "kept\nkept\nhidden\nstays\nx", "{ran:?}");
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_made_starts_nothing() {
    let fixture = fixture();
    let failing = fixture.supervisor().with_sandbox(|| Err(std::io::Error::other("no such agent")));
    let error = run(&failing, fixture.sh("true")).await.unwrap_err();
    assert!(
        matches!(&error, SpawnError::Sandbox { reason, .. } if reason == "no such agent"),
        "{error}"
    );
}
