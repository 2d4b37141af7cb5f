//! Systems that one file gives away.

use super::patterns::{
    CARGO, CTEST, DENO, DOTNET, GO, GRADLE, GRADLE_REPORT, MAVEN, MESON, MINITEST, MIX, PEST,
    PHPSPEC, PHPUNIT, RSPEC, SBT, SWIFT,
};
use super::{ProjectDir, TestSystem, found};

/// How the tests of a CMake project are built and run.
const CMAKE: &str = "cmake -S . -B build && cmake --build build && \
                     ctest --test-dir build --output-on-failure --no-tests=error";
/// The same of a Meson project.
const MESON_TESTS: &str = "{ test -d build || meson setup build; } && meson test -C build";

/// Only a plain console names the tasks that it ran, and only the reports say how many tests that were. A daemon that lives
/// already would work outside of the checkout.
const GRADLE_TESTS: &str = "test --no-daemon --console=plain && find . -path '*/test-results/*' \
                            -name 'TEST-*.xml' -exec grep -h '<testsuite ' {} +";

pub(crate) fn find(project: &ProjectDir<'_>) -> Vec<TestSystem> {
    let simple = [
        simple(project, "cargo", &["Cargo.toml"], &["cargo", "test"], CARGO, &["target/"]),
        simple(project, "go", &["go.mod"], &["go", "test", "-v", "./..."], GO, &[]),
        maven(project),
        gradle(project),
        simple(project, "sbt", &["build.sbt"], &["sbt", "test"], SBT, &["target/"]),
        ruby(project),
        simple(project, "mix", &["mix.exs"], &["mix", "test"], MIX, &["_build/", "deps/"]),
        dotnet(project),
        simple(project, "deno", &["deno.json", "deno.jsonc"], &["deno", "test"], DENO, &[]),
        simple(project, "swift", &["Package.swift"], &["swift", "test"], SWIFT, &[".build/"]),
        simple(project, "ctest", &["CMakeLists.txt"], &["sh", "-c", CMAKE], CTEST, &["build/"]),
        simple(project, "meson", &["meson.build"], &["sh", "-c", MESON_TESTS], MESON, &["build/"]),
        php(project),
    ];
    simple.into_iter().flatten().collect()
}

fn simple(
    project: &ProjectDir<'_>,
    name: &'static str,
    files: &[&str],
    program: &[&str],
    must_match: &'static str,
    artefacts: &'static [&'static str],
) -> Option<TestSystem> {
    let file = project.first(files)?;
    Some(TestSystem {
        must_match: vec![must_match],
        open: vec![file.to_owned()],
        artefacts,
        ..found(name, file, program)
    })
}

fn maven(project: &ProjectDir<'_>) -> Option<TestSystem> {
    let program = if project.has("mvnw") { "./mvnw" } else { "mvn" };
    let program = [program, "--batch-mode", "test"];
    simple(project, "maven", &["pom.xml"], &program, MAVEN, &["target/"])
}

fn gradle(project: &ProjectDir<'_>) -> Option<TestSystem> {
    let program = if project.has("gradlew") { "./gradlew" } else { "gradle" };
    let command = format!("{program} {GRADLE_TESTS}");
    let files = ["build.gradle.kts", "build.gradle"];
    let system =
        simple(project, "gradle", &files, &["sh", "-c", &command], GRADLE, &[".gradle/", "build/"]);
    let must_match = vec![GRADLE, GRADLE_REPORT];
    Some(TestSystem { must_match, definitions: &["gradlew"], ..system? })
}

fn ruby(project: &ProjectDir<'_>) -> Option<TestSystem> {
    let gemfile = project.text("Gemfile");
    let bundled = project.has("Gemfile");
    let has_specs = project.has(".rspec") || project.has_folder("spec");
    let (because, program, must_match): (&str, &[&str], _) =
        if gemfile.contains("rspec") || has_specs {
            let because = project.first(&["Gemfile", ".rspec"]).unwrap_or("spec");
            (because, if bundled { &["bundle", "exec", "rspec"] } else { &["rspec"] }, RSPEC)
        } else if project.has("bin/rails") {
            ("bin/rails", &["bin/rails", "test"], MINITEST)
        } else if project.has("Rakefile") && project.has_folder("test") {
            let program: &[&str] =
                if bundled { &["bundle", "exec", "rake", "test"] } else { &["rake", "test"] };
            ("Rakefile", program, MINITEST)
        } else {
            return None;
        };
    Some(TestSystem {
        must_match: vec![must_match],
        definitions: &["Rakefile", ".rspec"],
        open: bundled.then(|| "Gemfile".to_owned()).into_iter().collect(),
        ..found("ruby", because, program)
    })
}

fn dotnet(project: &ProjectDir<'_>) -> Option<TestSystem> {
    let file =
        [".sln", ".slnx", ".csproj", ".fsproj"].iter().find_map(|end| project.ending(end))?;
    Some(TestSystem {
        must_match: vec![DOTNET],
        artefacts: &["bin/", "obj/"],
        ..found("dotnet", &file, &["dotnet", "test"])
    })
}

/// A test runner of PHP.
struct PhpRunner {
    name: &'static str,
    package: &'static str,
    /// Files that only this runner has.
    settings: &'static [&'static str],
    arguments: &'static [&'static str],
    must_match: &'static str,
}

/// The first that fits counts: Pest has the settings of PHPUnit, too.
const OF_PHP: [PhpRunner; 3] = [
    PhpRunner {
        name: "pest",
        package: "pestphp/pest",
        settings: &["tests/Pest.php"],
        arguments: &[],
        must_match: PEST,
    },
    PhpRunner {
        name: "phpspec",
        package: "phpspec/phpspec",
        settings: &["phpspec.yml", "phpspec.yml.dist"],
        arguments: &["run"],
        must_match: PHPSPEC,
    },
    PhpRunner {
        name: "phpunit",
        package: "phpunit/phpunit",
        settings: &["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"],
        arguments: &[],
        must_match: PHPUNIT,
    },
];

fn php(project: &ProjectDir<'_>) -> Option<TestSystem> {
    let composer = project.text("composer.json");
    OF_PHP.iter().find_map(|runner| {
        let PhpRunner { name, package, settings, arguments, must_match } = runner;
        let named = composer.contains(package);
        let because = project.first(settings).or(named.then_some("composer.json"))?;
        // Installed for the whole machine, or to be installed for the project.
        let installed = format!("vendor/bin/{name}");
        let is_own = named || project.has(&installed);
        let program = [&[if is_own { installed.as_str() } else { name }], *arguments].concat();
        Some(TestSystem {
            must_match: vec![must_match],
            definitions: &[
                "phpunit.xml",
                "phpunit.xml.dist",
                "phpunit.dist.xml",
                "phpspec.yml",
                "phpspec.yml.dist",
            ],
            open: project.first(&["composer.json"]).map(str::to_owned).into_iter().collect(),
            artefacts: &["vendor/", ".phpunit.result.cache"],
            ..found(name, because, &program)
        })
    })
}
