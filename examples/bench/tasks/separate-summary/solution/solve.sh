#!/bin/sh
python3 - <<'END'
import json
import os

summary, notes = {}, []
for name in sorted(os.listdir("measurements")):
    with open(os.path.join("measurements", name), encoding="utf-8") as file:
        numbers = [float(line) for line in file if line.strip() and not line.startswith("#")]
    key = os.path.splitext(name)[0]
    summary[key] = {"count": len(numbers)}
    if numbers:
        mean = round(sum(numbers) / len(numbers), 3)
        summary[key] |= {"min": min(numbers), "max": max(numbers), "mean": mean}
    else:
        notes.append(name + "\n")
os.makedirs("out", exist_ok=True)
with open("out/summary.json", "w", encoding="utf-8") as file:
    json.dump(summary, file)
with open("notes.txt", "w", encoding="utf-8") as file:
    file.writelines(notes)
END
