#!/bin/sh
# Prints how often each word of a file occurs.
tr ' ' '\n' < "$1" | sort | uniq -c
