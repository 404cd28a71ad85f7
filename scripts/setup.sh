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
[ -z "$missing" ] && exit 0

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
# shellcheck disable=SC2086 # one word a package
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing
