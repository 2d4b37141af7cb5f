#!/bin/sh
# Checks greet.sh. Prints a line for each check and a summary; exits 0 if all passed.

cd "$(dirname "$0")" || exit 1

passed=0
failed=0

# check WHAT WANTED-STATUS WANTED-OUTPUT [ARGUMENT…]
check() {
    what=$1
    wanted_status=$2
    wanted=$3
    shift 3
    got=$(sh greet.sh "$@" 2>/dev/null)
    status=$?
    if [ "$status" -eq "$wanted_status" ] && [ "$got" = "$wanted" ]; then
        passed=$((passed + 1))
        printf 'ok      %s\n' "$what"
    else
        failed=$((failed + 1))
        printf 'FAILED  %s\n' "$what"
        printf '        wanted status %s and output: %s\n' "$wanted_status" "$wanted"
        printf '        got    status %s and output: %s\n' "$status" "$got"
    fi
}

check 'no name' 0 'Hello, world!'
check 'a name' 0 'Hello, Ada!' Ada
check 'a name with a space' 0 'Hello, Grace Hopper!' 'Grace Hopper'
check 'an empty name' 2 '' ''

printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
