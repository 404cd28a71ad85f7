#!/bin/sh
# Installs Spark from PyPI for the tests with real drivers, each version in a virtual environment of its own. Does nothing
# where all is there. INTERREX_SPARK_CACHE says where; default ~/.cache/interrex/spark. pip keeps what it has downloaded.
#
# With --if-possible, as `make test` calls it, a machine without Java, Python or the network is no failure, and neither is
# INTERREX_SPARK_TESTS=0: then one line on stdout says why the tests with Spark are skipped.
set -eu

versions="3.5.9 4.1.4"
cache="${INTERREX_SPARK_CACHE:-${HOME:?}/.cache/interrex/spark}"
if_possible=""
[ "${1:-}" = --if-possible ] && if_possible=yes

say() { printf 'fetch-spark: %s\n' "$*" >&2; }
skip() {
  [ -n "$if_possible" ] || { say "$*"; exit 1; }
  printf 'tests with real Spark: skipped, %s\n' "$*"
  exit 0
}

if [ -n "$if_possible" ] && [ "${INTERREX_SPARK_TESTS:-}" = 0 ]; then
  skip "INTERREX_SPARK_TESTS=0"
fi
command -v java >/dev/null 2>&1 || skip "there is no java (17)"
command -v python3 >/dev/null 2>&1 || skip "there is no python3"
python3 -c 'import ensurepip, venv' 2>/dev/null || skip "python3 cannot make virtual environments (python3-venv)"

# The mark comes last: an installation without it is one that broke off.
install() {
  place="$cache/$1"
  rm -rf "$place"
  python3 -m venv "$place" &&
    "$place/bin/pip" --disable-pip-version-check install --quiet --retries 2 --timeout 30 "pyspark==$1" &&
    : > "$place/complete"
}

running=""
for version in $versions; do
  [ -e "$cache/$version/complete" ] && continue
  say "installing Spark $version into $cache/$version (300 to 450 MB to download)"
  mkdir -p "$cache"
  install "$version" > "$cache/$version.log" 2>&1 &
  running="$running $version:$!"
done
failed=""
for one in $running; do
  wait "${one#*:}" || failed="$failed ${one%%:*}"
done
[ -z "$failed" ] && exit 0
for version in $failed; do
  log="$cache/$version.log"
  if grep -qE 'NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|name resolution|unreachable' "$log"; then
    skip "the network does not reach PyPI, from which Spark $version is installed"
  fi
  say "installing Spark $version failed:"
  tail -n 20 "$log" >&2
done
exit 1
