#!/bin/sh
# Accepts once there is a file for each item that the bot has worked on, and none of them is empty.
set -- *.txt
for file in "$@"; do
    [ -s "$file" ] || { echo "$file is empty"; exit 1; }
done
[ "$#" -gt 1 ] || { echo "no file was made"; exit 1; }
