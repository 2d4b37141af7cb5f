#!/bin/sh
mkdir -p /logs/verifier
if PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 python3 /tests/check_roman.py; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
