#!/bin/sh
. /tests/expect.sh
rm -f todo.txt
all() {
    expect '' list &&
        expect '' add buy milk &&
        expect '' add 'write  tests' &&
        expect '1. buy milk
2. write  tests' list &&
        ! sh todo.sh fly 2> /dev/null
}
all
give_reward $?
