#!/bin/sh
cat > fetch.sh <<'END'
#!/bin/sh
# Fetches records, and tries again what fails now and then.
status=0
for name in "$@"; do
    while :; do
        ./source.sh "$name"
        case $? in
        0) break ;;
        75) ;;
        *) status=1; break ;;
        esac
    done
done
exit "$status"
END
