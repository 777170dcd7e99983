#!/bin/bash
set -euo pipefail
lines="$(find /app/logs -type f -name '*.log' -exec cat {} +)"
for level in DEBUG INFO WARNING ERROR; do
  count="$(grep -cE "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8} $level( |\$)" <<<"$lines" || true)"
  echo "$level $count"
done >/app/report.txt
