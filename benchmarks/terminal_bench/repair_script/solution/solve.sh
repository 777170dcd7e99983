#!/bin/bash
cat >/app/backup.sh <<'SCRIPT'
#!/bin/bash
# Copies the files of SOURCE to TARGET.
set -euo pipefail
source=$1
target=$2
if [ ! -d "$source" ]; then
  echo "backup.sh: $source is no folder" >&2
  exit 2
fi
mkdir -p "$target"
target="$(cd "$target" && pwd)"
count=0
cd "$source"
while IFS= read -r -d '' file; do
  mkdir -p "$target/$(dirname "$file")"
  cp "$file" "$target/$file"
  count=$((count + 1))
done < <(find . -type f -print0)
echo "copied $count files"
SCRIPT
chmod 755 /app/backup.sh
