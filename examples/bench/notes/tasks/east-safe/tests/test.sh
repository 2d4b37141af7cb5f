#!/bin/sh
if [ "$(cat /app/state 2>/dev/null)" = open ]; then
    echo 1 >/logs/verifier/reward.txt
else
    echo 0 >/logs/verifier/reward.txt
fi
