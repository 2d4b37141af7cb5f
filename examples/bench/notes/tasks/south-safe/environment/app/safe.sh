#!/bin/sh
# Opens the safe if the code is right: only its checksum is known here.
if [ "$(printf 'south %s' "$1" | cksum | cut -d ' ' -f 1)" = 3799590398 ]; then
    echo open >state
    echo "the safe is open"
else
    echo "wrong code"
    exit 1
fi
