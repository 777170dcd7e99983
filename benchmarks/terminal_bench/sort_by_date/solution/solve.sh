#!/bin/bash
set -euo pipefail
tail -n +2 /app/index.csv | while IFS=, read -r file taken; do
  [ -f "/app/photos/$file" ] || continue
  IFS=. read -r day month year <<<"$taken"
  month="$(printf '%02d' "$month")"
  day="$(printf '%02d' "$day")"
  mkdir -p "/app/sorted/$year/$month"
  mv "/app/photos/$file" "/app/sorted/$year/$month/$year-$month-${day}_$file"
done
