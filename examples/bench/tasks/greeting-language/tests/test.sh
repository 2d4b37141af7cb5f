#!/bin/sh
all() {
    [ "$(cat language.txt)" = "$GREETING_LANGUAGE" ] &&
        [ "$(GREETING_LANGUAGE=de sh greet.sh)" = 'Hallo, Ada!' ] &&
        [ "$(GREETING_LANGUAGE=fr sh greet.sh)" = 'Bonjour, Ada !' ] &&
        [ "$(GREETING_LANGUAGE=en sh greet.sh)" = 'Hello, Ada!' ] &&
        [ "$(GREETING_LANGUAGE=xx GREETING_NAME='A  B' sh greet.sh)" = 'Hello, A  B!' ] &&
        [ "$(unset GREETING_LANGUAGE; GREETING_NAME= sh greet.sh)" = 'Hello, world!' ]
}

mkdir -p /logs/verifier
if all; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
