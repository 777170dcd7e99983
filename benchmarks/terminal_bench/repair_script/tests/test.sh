#!/bin/bash
# Writes the reward: the part of the six properties that hold.
rm -f /logs/verifier/reward.* # the agent can write there, and Harbor prefers reward.json
script=/app/backup.sh
place="$(mktemp -d)"
passed=0
total=0

check() { # a name, and a command
  total=$((total + 1))
  if "${@:2}" >/dev/null 2>&1; then
    passed=$((passed + 1))
    echo "PASSED: $1"
  else
    echo "FAILED: $1"
  fi
}
same() { [ "$(cat "$1")" = "$(cat "$2")" ]; }

mkdir -p "$place/from/a folder/b"
echo 1 >"$place/from/plain.txt"
echo 2 >"$place/from/with some spaces.txt"
echo 3 >"$place/from/.hidden"
echo 4 >"$place/from/a folder/b/deep.txt"
cd "$place" || exit 1
timeout 20 "$script" "$place/from" "$place/new/target" >"$place/said" 2>&1
timeout 20 "$script" "$place/missing" "$place/never" >/dev/null 2>"$place/error"
code=$?

refuses() { [ "$code" = 2 ] && [ -s "$place/error" ] && [ ! -e "$place/never" ]; }
counts() { [ "$(tail -n 1 "$place/said")" = "copied 4 files" ]; }
check "names with spaces" same "$place/from/with some spaces.txt" "$place/new/target/with some spaces.txt"
check "names that begin with a dot" same "$place/from/.hidden" "$place/new/target/.hidden"
check "the target is made" same "$place/from/plain.txt" "$place/new/target/plain.txt"
check "files in subfolders" same "$place/from/a folder/b/deep.txt" "$place/new/target/a folder/b/deep.txt"
check "the number of files" counts
check "a source that is no folder" refuses
awk -v passed="$passed" -v total="$total" 'BEGIN { print passed / total }' >/logs/verifier/reward.txt
