#!/bin/sh
# Gives a reward for each script: 1 if it is right on all texts, else 0.
judge() {
    script=$1
    shift
    for text in 'a bc\n\n  \nlonger line here\n' '' 'one'; do
        [ "$(printf "$text" | sh "./$script")" = "$1" ] || { echo 0; return; }
        shift
    done
    echo 1
}
mkdir -p /logs/verifier
cat > /logs/verifier/reward.json <<END
{"lines": $(judge lines.sh 2 0 1), "words": $(judge words.sh 5 0 1), "longest": $(judge longest.sh 16 0 3)}
END
