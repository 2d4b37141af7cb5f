#!/bin/sh
# Tries one code of the safe in a session: one that its prompt does not call wrong.
prompt=$(cat)
number=$(printf '%s %s' "$RALPH_RUN_ID" "$RALPH_ITERATION" | cksum | cut -d ' ' -f 1)
code=$((number % 4))
while printf '%s\n' "$prompt" | grep -q "code $code is wrong"; do
    code=$(((code + 1) % 4))
done
if ./safe.sh "$code"; then
    echo "<promise>COMPLETE: code $code opened the safe</promise>"
elif [ -f progress.txt ]; then
    printf '\n--- Session %s ---\ncode %s is wrong\n' "$RALPH_ITERATION" "$code" >>progress.txt
fi
