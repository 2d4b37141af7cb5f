# The program in an image of Debian, with git and a user of its own; agents are installed on top, see
# docs/user/ci.md. scripts/test-package runs what the last stage does in a fresh root, without Docker.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN scripts/package && cp target/package/*.deb /ralph-orchestrator.deb

FROM debian:bookworm-slim
COPY --from=build /ralph-orchestrator.deb /tmp/ralph-orchestrator.deb
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git /tmp/ralph-orchestrator.deb \
    && rm -rf /var/lib/apt/lists/* /tmp/ralph-orchestrator.deb
# Agents are not to run as root; files in the workspace then belong to the first user of most machines.
RUN useradd --create-home --uid 1000 --shell /bin/bash ralph \
    && install --directory --owner=ralph --group=ralph /work
USER ralph
WORKDIR /work
ENTRYPOINT ["ralph-orchestrator"]
CMD ["run"]
