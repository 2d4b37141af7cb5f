# Everything that is checked before a change lands.
ci:
    .ci/run

# Installs the agents that the tests drive, then runs all tests.
test:
    scripts/test

# The recorded example.
hello:
    cargo run -- run -c ralph.toml

# Writes the schema, the references and the picture in docs/ anew.
docs:
    scripts/update-docs

# Makes the packages in target/package.
package:
    scripts/package
