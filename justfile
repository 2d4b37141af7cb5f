# Everything that is checked before a change lands.
ci:
    .ci/run

# Installs the agents that the tests drive, then runs all tests.
test:
    scripts/test

# The recorded example.
hello:
    cargo run --release -- run -c ralph.toml

# Writes the JSON Schema of ralph.toml anew.
schema:
    cargo run --quiet -- config schema > schemas/ralph.schema.json
