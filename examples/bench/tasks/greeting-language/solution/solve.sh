#!/bin/sh
cat > "$GREETING_SCRIPT" <<'END'
#!/bin/sh
name=${GREETING_NAME:-world}
case "$GREETING_LANGUAGE" in
de) echo "Hallo, $name!" ;;
fr) echo "Bonjour, $name !" ;;
*) echo "Hello, $name!" ;;
esac
END
echo "$GREETING_LANGUAGE" > language.txt
