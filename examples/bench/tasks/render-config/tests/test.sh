#!/bin/sh
render() {
    TEMPLATES=/tests/templates ./bin/render "$1"
}
all() {
    [ "$RENDER_MODE" = strict ] && [ ! -e templates/site.notes ] && [ -d rendered ] || return 1
    A='x/y&z\1' B_2= && export A B_2
    [ "$(render many.conf)" = 'x/y&z\1 and x/y&z\1 or , not @a@ nor a@b.c' ] || return 1
    found=$(render unknown.conf 2> /tmp/message)
    [ $? -eq 3 ] && [ -z "$found" ] && [ "$(cat /tmp/message)" = 'unknown: NOT_SET' ] || return 1
    [ "$(RENDER_MODE=loose render unknown.conf)" = 'first x/y&z\1
second ' ] || return 1
    SITE_NAME=n SITE_ROOT=/r && export SITE_NAME SITE_ROOT
    [ "$(./bin/render site.conf)" = 'server_name n;
root /r/n;' ]
}

mkdir -p /logs/verifier
if all; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
