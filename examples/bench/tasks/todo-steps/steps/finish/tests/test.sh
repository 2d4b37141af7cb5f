#!/bin/sh
. /tests/expect.sh
all() {
    expect '1. water plants
2. read book' list &&
        expect '' done 1 &&
        expect '1. water plants (done)
2. read book' list &&
        expect '2. read book' open &&
        expect '' add go out &&
        expect '2. read book
3. go out' open &&
        ! sh todo.sh done 9 2> /dev/null &&
        ! sh todo.sh fly 2> /dev/null
}
all
give_reward $?
