# Everything that is checked before a change lands.
ci:
    .ci/run

# Installs the agents that the tests drive, then runs all tests.
test:
    scripts/test

# Unit tests, and the tests of the program that need nothing else and are quick.
test-fast:
    cargo nextest run --workspace --lib --test cli --profile fast

# Whether the program compiles, and the machine's tests: seconds after a change there.
check:
    CARGO_INCREMENTAL=1 cargo check
    CARGO_INCREMENTAL=1 cargo test --quiet -p ralph-orchestrator-machine --lib

# The recorded example.
hello:
    cargo run -- run -c ralph.toml

# Writes the schema, the references and the picture in docs/ anew.
docs:
    scripts/update-docs

# Makes the packages in target/package.
package:
    scripts/package
