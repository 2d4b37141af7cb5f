#!/bin/sh
# Prints a record; fails now and then. Which calls fail depends on TRIAL_SEED and how often it was called.
counter=${SOURCE_COUNTER:-/tmp/source-counter}
calls=$(cat "$counter" 2> /dev/null || echo 0)
calls=$((calls + 1))
echo "$calls" > "$counter"
case "$1" in
unknown*) exit 2 ;;
esac
# Every fifth call works, whatever the seed.
draw=$(((calls * 7919 + ${TRIAL_SEED:-1} * 104729) % 10))
if [ "$draw" -lt 2 ] && [ $((calls % 5)) -ne 0 ]; then
    exit 75
fi
echo "record of $1"
