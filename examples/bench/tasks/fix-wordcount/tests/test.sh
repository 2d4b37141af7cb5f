#!/bin/sh
check() {
    printf "$1" > /tmp/input.txt
    printf "$2" > /tmp/expected.txt
    sh ./count.sh /tmp/input.txt > /tmp/found.txt
    cmp /tmp/expected.txt /tmp/found.txt
}
all() {
    check 'The loop runs. The agent stops; the loop\ngoes on, and on: "Loop!"\n' \
        '3 loop\n3 the\n2 on\n1 agent\n1 and\n1 goes\n1 runs\n1 stops\n' &&
        check '' '' &&
        check 'b\tB\r\na1a--C' '2 a\n2 b\n1 c\n' &&
        check '...\n123\n' ''
}

mkdir -p /logs/verifier
if all; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
