#!/bin/sh
printf 'Hello, loop.\nGood night.\n' > greeting.txt
