#!/bin/sh
cat > todo.sh <<'END'
#!/bin/sh
# Keeps a list of tasks.
case "$1" in
add) shift; echo "$*" >> todo.txt ;;
list) [ ! -f todo.txt ] || awk '{ print NR ". " $0 }' todo.txt ;;
*) echo "usage: todo.sh add|list" >&2; exit 1 ;;
esac
END
