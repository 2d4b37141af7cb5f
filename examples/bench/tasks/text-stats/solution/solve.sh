#!/bin/sh
echo "awk 'NF { count++ } END { print count + 0 }'" > lines.sh
echo "awk '{ count += NF } END { print count + 0 }'" > words.sh
echo "awk 'length > longest { longest = length } END { print longest + 0 }'" > longest.sh
