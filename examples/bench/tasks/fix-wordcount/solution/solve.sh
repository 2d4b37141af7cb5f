#!/bin/sh
cat > count.sh <<'END'
#!/bin/sh
# Prints how often each word of a file occurs.
LC_ALL=C tr -cs 'A-Za-z' '\n' < "$1" | LC_ALL=C tr 'A-Z' 'a-z' | grep . | LC_ALL=C sort | uniq -c |
    LC_ALL=C sort -k1,1nr -k2,2 | awk '{ print $1 " " $2 }'
END
