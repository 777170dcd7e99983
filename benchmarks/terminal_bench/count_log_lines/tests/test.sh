#!/bin/bash
# Writes the reward: 1 if the report is right, else 0.
rm -f /logs/verifier/reward.* # the agent can write there, and Harbor prefers reward.json
reward=0
expected="$(printf 'DEBUG 4\nINFO 7\nWARNING 3\nERROR 2')"
if [ ! -f /app/report.txt ]; then
  echo "FAILED: there is no /app/report.txt"
elif found="$(cat /app/report.txt)" && [ "$found" = "$expected" ]; then
  echo "PASSED: the report is right"
  reward=1
else
  echo "FAILED: the report is wrong; it has"
  head -c 1000 /app/report.txt
fi
echo "$reward" >/logs/verifier/reward.txt
