//! Systems that one file gives away.

use super::patterns::{
    CARGO, CTEST, DENO, DOTNET, GO, GRADLE, MAVEN, MESON, MINITEST, MIX, PHPUNIT, RSPEC, SBT, SWIFT,
};
use super::{Place, System, found};

/// How the tests of a CMake project are built and run.
const CMAKE: &str = "cmake -S . -B build && cmake --build build && \
                     ctest --test-dir build --output-on-failure --no-tests=error";
/// The same of a Meson project.
const MESON_TESTS: &str = "{ test -d build || meson setup build; } && meson test -C build";

pub(super) fn find(place: &Place<'_>) -> Vec<System> {
    let simple = [
        simple(place, "cargo", &["Cargo.toml"], &["cargo", "test"], CARGO, &["target/"]),
        simple(place, "go", &["go.mod"], &["go", "test", "./..."], GO, &[]),
        maven(place),
        gradle(place),
        simple(place, "sbt", &["build.sbt"], &["sbt", "test"], SBT, &["target/"]),
        ruby(place),
        simple(place, "mix", &["mix.exs"], &["mix", "test"], MIX, &["_build/", "deps/"]),
        dotnet(place),
        simple(place, "deno", &["deno.json", "deno.jsonc"], &["deno", "test"], DENO, &[]),
        simple(place, "swift", &["Package.swift"], &["swift", "test"], SWIFT, &[".build/"]),
        simple(place, "ctest", &["CMakeLists.txt"], &["sh", "-c", CMAKE], CTEST, &["build/"]),
        simple(place, "meson", &["meson.build"], &["sh", "-c", MESON_TESTS], MESON, &["build/"]),
        php(place),
    ];
    simple.into_iter().flatten().collect()
}

fn simple(
    place: &Place<'_>,
    name: &'static str,
    files: &[&str],
    program: &[&str],
    must_match: &'static str,
    artefacts: &'static [&'static str],
) -> Option<System> {
    let file = place.first(files)?;
    Some(System {
        must_match: vec![must_match],
        open: vec![file.to_owned()],
        artefacts,
        ..found(name, file, program)
    })
}

fn maven(place: &Place<'_>) -> Option<System> {
    let program = if place.has("mvnw") { "./mvnw" } else { "mvn" };
    let program = [program, "--batch-mode", "test"];
    simple(place, "maven", &["pom.xml"], &program, MAVEN, &["target/"])
}

fn gradle(place: &Place<'_>) -> Option<System> {
    let program = if place.has("gradlew") { "./gradlew" } else { "gradle" };
    let files = ["build.gradle.kts", "build.gradle"];
    // Only so it names the tasks that it ran.
    let program = [program, "test", "--console=plain"];
    simple(place, "gradle", &files, &program, GRADLE, &[".gradle/", "build/"])
}

fn ruby(place: &Place<'_>) -> Option<System> {
    let gemfile = place.text("Gemfile");
    let bundled = place.has("Gemfile");
    let has_specs = place.has(".rspec") || place.has_folder("spec");
    let (because, program, must_match): (&str, &[&str], _) =
        if gemfile.contains("rspec") || has_specs {
            let because = place.first(&["Gemfile", ".rspec"]).unwrap_or("spec");
            (because, if bundled { &["bundle", "exec", "rspec"] } else { &["rspec"] }, RSPEC)
        } else if place.has("bin/rails") {
            ("bin/rails", &["bin/rails", "test"], MINITEST)
        } else if place.has("Rakefile") && place.has_folder("test") {
            let program: &[&str] =
                if bundled { &["bundle", "exec", "rake", "test"] } else { &["rake", "test"] };
            ("Rakefile", program, MINITEST)
        } else {
            return None;
        };
    Some(System {
        must_match: vec![must_match],
        definitions: &["Rakefile", ".rspec"],
        open: bundled.then(|| "Gemfile".to_owned()).into_iter().collect(),
        ..found("ruby", because, program)
    })
}

fn dotnet(place: &Place<'_>) -> Option<System> {
    let file = [".sln", ".slnx", ".csproj", ".fsproj"].iter().find_map(|end| place.ending(end))?;
    Some(System {
        must_match: vec![DOTNET],
        artefacts: &["bin/", "obj/"],
        ..found("dotnet", &file, &["dotnet", "test"])
    })
}

fn php(place: &Place<'_>) -> Option<System> {
    let settings = place.first(&["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"]);
    let named = place.text("composer.json").contains("phpunit/phpunit");
    let because = settings.or(named.then_some("composer.json"))?;
    Some(System {
        must_match: vec![PHPUNIT],
        definitions: &["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"],
        open: place.first(&["composer.json"]).map(str::to_owned).into_iter().collect(),
        artefacts: &["vendor/", ".phpunit.result.cache"],
        ..found("phpunit", because, &["vendor/bin/phpunit"])
    })
}
