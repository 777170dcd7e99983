#!/bin/bash
# Copies the files of SOURCE to TARGET.
source=$1
target=$2

count=0
cd $source
for file in $(find * -type f); do
  cp $file $target/$file
  count=$((count + 1))
done
echo "copied $count file"
