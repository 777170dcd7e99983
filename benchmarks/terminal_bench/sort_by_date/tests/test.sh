#!/bin/bash
# Writes the reward: 1 if all photos are in the right places, else 0.
rm -f /logs/verifier/reward.* # the agent can write there, and Harbor prefers reward.json
failed=0

expect() { # a file, and the photo that it has to be
  if [ "$(cat "$1" 2>/dev/null)" = "picture of $2" ]; then
    echo "PASSED: $1"
  else
    echo "FAILED: $1"
    failed=$((failed + 1))
  fi
}

expect /app/sorted/2024/03/2024-03-07_beach.jpg beach.jpg
expect "/app/sorted/2023/11/2023-11-15_old town.jpg" "old town.jpg"
expect /app/sorted/2024/01/2024-01-01_dog.jpg dog.jpg
expect /app/sorted/2023/12/2023-12-30_cat.jpg cat.jpg
expect /app/sorted/2024/01/2024-01-31_snow.jpg snow.jpg
expect /app/photos/unknown.jpg unknown.jpg
sorted="$(find /app/sorted -type f 2>/dev/null | wc -l)"
left="$(find /app/photos -type f 2>/dev/null | wc -l)"
if [ "$sorted" -eq 5 ] && [ "$left" -eq 1 ]; then
  echo "PASSED: nothing else is there"
else
  echo "FAILED: there are $sorted files in /app/sorted and $left in /app/photos, and there should be 5 and 1"
  failed=$((failed + 1))
fi
if [ "$failed" -eq 0 ]; then reward=1; else reward=0; fi
echo "$reward" >/logs/verifier/reward.txt
