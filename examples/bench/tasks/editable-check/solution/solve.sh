#!/bin/sh
echo 'sort -t . -k 1,1n -k 2,2n -k 3,3n -u' > order.sh
