#!/bin/sh
# Installs Spark from PyPI for the tests with real drivers, each version in a virtual environment of its own.
# Does nothing where all is there. INTERREX_SPARK_CACHE says where; default ~/.cache/interrex/spark.
set -eu

cache="${INTERREX_SPARK_CACHE:-${HOME:?}/.cache/interrex/spark}"
for version in 3.5.9 4.1.4; do
  place="$cache/$version"
  [ -e "$place/complete" ] && continue
  printf 'fetching Spark %s into %s\n' "$version" "$place" >&2
  rm -rf "$place"
  python3 -m venv "$place"
  "$place/bin/pip" install --quiet "pyspark==$version"
  : > "$place/complete"
done
