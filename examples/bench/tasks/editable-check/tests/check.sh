#!/bin/sh
# Says whether order.sh does what it has to.
found=$(printf '1.10.0\n1.9.0\n0.0.10\n1.9.0\n10.0.0\n2.0.0\n0.0.9\n' | sh ./order.sh)
expected='0.0.9
0.0.10
1.9.0
1.10.0
2.0.0
10.0.0'
if [ "$found" = "$expected" ]; then echo PASS; else echo FAIL; fi
