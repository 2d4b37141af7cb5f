# What the tests of both steps share.

# Runs todo.sh with the arguments after the first, and compares what it prints with the first.
expect() {
    expected=$1
    shift
    found=$(sh todo.sh "$@") && [ "$found" = "$expected" ]
}

give_reward() {
    mkdir -p /logs/verifier
    if [ "$1" -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
}
