#!/bin/sh
cat > todo.sh <<'END'
#!/bin/sh
# Keeps a list of tasks; the numbers of those that are done are in done.txt.
touch todo.txt done.txt
show() {
    awk -v all="$1" 'NR == FNR { done[$1] = 1; next }
        FNR in done { if (all) print FNR ". " $0 " (done)"; next }
        { print FNR ". " $0 }' done.txt todo.txt
}
case "$1" in
add) shift; echo "$*" >> todo.txt ;;
list) show 1 ;;
open) show "" ;;
done)
    if ! awk -v wanted="$2" 'NR == wanted { found = 1 } END { exit !found }' todo.txt; then
        echo "there is no task $2" >&2
        exit 1
    fi
    echo "$2" >> done.txt
    ;;
*) echo "usage: todo.sh add|list|open|done" >&2; exit 1 ;;
esac
END
# awk skips an empty first file, so that it begins with a number that no task has.
sed -i 's/^touch todo.txt done.txt$/touch todo.txt; [ -s done.txt ] || echo 0 > done.txt/' todo.sh
