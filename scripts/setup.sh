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
# For tests and `interrex dev --engine etcd`, which start their own. Debian starts one more, which nothing here uses.
have etcd || missing="$missing etcd-server"
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
$as_root apt-get update -qq
# shellcheck disable=SC2086 # one word a package
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing
