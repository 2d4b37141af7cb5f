#!/bin/sh
cp /tests/source.sh ./source.sh
chmod 755 source.sh
SOURCE_COUNTER=/tmp/source-counter-of-tests
export SOURCE_COUNTER
rm -f "$SOURCE_COUNTER"

all() {
    found=$(timeout 20 sh fetch.sh a b) || return 1
    [ "$found" = 'record of a
record of b' ] || return 1
    found=$(timeout 20 sh fetch.sh a unknown b)
    [ $? -eq 1 ] && [ "$found" = 'record of a
record of b' ]
}

mkdir -p /logs/verifier
if all; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
