#!/bin/sh
# Sets up what building needs and this machine lacks. Does nothing where all is there.
set -eu

say() { printf 'setup: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

if ! have cargo && [ -x "${HOME:-/root}/.cargo/bin/cargo" ]; then
  say "cargo is installed but not on PATH: run  . \"\$HOME/.cargo/env\"  first"
  exit 1
fi
if ! have cargo; then
  say "Rust is missing: install it (https://rustup.rs), then try again"
  exit 1
fi

missing=""
have cc || missing="$missing gcc libc6-dev"
have protoc || missing="$missing protobuf-compiler"
# For tests and `interrex dev --engine etcd`, which start their own.
have etcd || missing="$missing etcd-server"
# For tests of alerts and dashboards, which start their own as well.
have promtool || missing="$missing prometheus"
# For tests with real Spark, which are skipped without.
spark=""
if [ "${INTERREX_SPARK_TESTS:-}" != 0 ]; then
  have java || spark="$spark openjdk-17-jre-headless"
  python3 -c 'import ensurepip, venv' 2>/dev/null || spark="$spark python3 python3-venv"
fi
[ -z "$missing$spark" ] && exit 0
can_install() { have apt-get && { [ "$(id -u)" = 0 ] || have sudo; }; }
if [ -z "$missing" ] && ! can_install; then
  say "install these to test with real Spark, too:$spark"
  exit 0
fi
missing="$missing$spark"

if ! have apt-get; then
  say "install these with your package manager:$missing"
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  as_root=""
elif have sudo; then
  as_root="sudo"
else
  say "install these as root:  apt-get install$missing"
  exit 1
fi
say "installing$missing"
# Nothing here uses a service of the system: Debian asks this file whether it may start one (101: no).
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
  $as_root chmod 755 "$policy"
  trap '$as_root rm -f "$policy"' EXIT
fi
$as_root apt-get update -qq
# Not every release of Debian and Ubuntu has it.
apt-cache show openjdk-17-jre-headless >/dev/null 2>&1 || missing=$(echo "$missing" | sed 's/openjdk-17-jre/default-jre/')
# shellcheck disable=SC2086 # one word a package
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing
