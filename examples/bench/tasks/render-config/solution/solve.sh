#!/bin/sh
cat > bin/render <<'END'
#!/bin/sh
# Fills in a template.
filled=$(awk '
    {
        out = ""
        rest = $0
        while (match(rest, /@[A-Z][A-Z0-9_]*@/)) {
            name = substr(rest, RSTART + 1, RLENGTH - 2)
            if (!(name in ENVIRON) && ENVIRON["RENDER_MODE"] == "strict") {
                print "unknown: " name | "cat >&2"
                exit 3
            }
            out = out substr(rest, 1, RSTART - 1) ENVIRON[name]
            rest = substr(rest, RSTART + RLENGTH)
        }
        print out rest
    }' "$TEMPLATES/$1") || exit $?
printf '%s\n' "$filled"
END
chmod 755 bin/render
