//! Evidence that a plugin's validator names.

use crate::environment::TestEnvironment;

const VALIDATOR: &str = include_str!("evidence.py");
const DONE: &str =
    "cat >/dev/null\necho proof >proof.txt\necho '<promise>COMPLETE: done</promise>'\n";

/// A workspace whose validator accepts and reports `proof.txt` with these keys.
fn environment(keys: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let (plugin, bot) = (env.root().join("plugin.py"), env.root().join("bot.sh"));
    std::fs::write(&plugin, VALIDATOR).unwrap();
    std::fs::write(&bot, DONE).unwrap();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[plugins.mine]\ncommand = [\"python3\", \"{}\", '{keys}']\n\
         [agent]\nadapter = \"command\"\n[agent.config]\nprogram = [\"sh\", \"{}\"]\n\
         [[validator]]\nkind = \"mine\"\n",
        plugin.display(),
        bot.display()
    ));
    env
}

/// The case of the documentation holds for a validator that rejects a workspace without `proof.txt`.
pub(super) fn documented_case_holds(case: &str) {
    let env = environment("{}");
    env.write("conformance.toml", case);
    let ended = env.ralph(&["plugin", "test", "mine", "--only", "workspace-no-report"]).expect(0);
    ended.says("workspace no report").says("all checks passed");
}

#[test]
fn a_digest_that_is_left_out_is_computed() {
    let env = environment("{}");
    env.run().expect(0);
    let verdicts = env.records("validated");
    let text = serde_json::to_string(&verdicts).unwrap();
    let digest = blake3::hash(b"proof\n").to_hex().to_string();
    assert!(text.contains(&digest) && text.contains("\"bytes\":6"), "{text}");
}

#[test]
fn a_wrong_digest_is_the_error_of_the_validator() {
    let env = environment("{\"digest\": \"beef\"}");
    let ended = env.ralph(&["run", "--max-iterations", "1"]);
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    ended.says("it reported the digest beef for its evidence");
    let text = serde_json::to_string(&env.records("validated")).unwrap();
    assert!(text.contains("\"verdict\":\"error\"") && text.contains("BLAKE3 digest is"), "{text}");
}

#[test]
fn a_validator_is_tested_in_workspaces_with_expected_results() {
    let env = environment("{}");
    let case = |name: &str, files: &str, expect: &str| {
        format!("[[workspace]]\nname = \"{name}\"\nfiles = {{ {files} }}\nexpect = \"{expect}\"\n")
    };
    let proof = "\"proof.txt\" = \"proof\"";
    let (good, bad) = (case("good", proof, "accepted"), case("bad", "", "rejected"));
    let test = ["plugin", "test", "mine", "--only", "workspace-good,workspace-bad"];
    env.write("conformance.toml", format!("{good}{bad}"));
    let ended = env.ralph(&test).expect(0);
    ended.says("workspace good").says("workspace bad").says("all checks passed");
    for (cases, why) in [
        (
            case("good", "", "accepted") + &bad,
            "expected it to accept the claim, got rejected: write",
        ),
        (good + &case("bad", proof, "rejected"), "expected it to reject the claim, got accepted"),
        (case("good", "\"../x\" = \"\"", "accepted") + &bad, "is not a path below the workspace"),
        (case("good", proof, "claim") + &bad, "`expect` of a validator is"),
    ] {
        env.write("conformance.toml", cases);
        env.ralph(&test).expect(1).says(why);
    }
}
