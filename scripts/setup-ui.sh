#!/bin/sh
# Sets up what the tests of pages need and this machine lacks: Chromium with its driver, and axe. Does nothing where
# all is there.
set -eu

# The version of axe that judges.
AXE=4.14.1

say() { printf 'setup-ui: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

missing=""
have chromium || missing="$missing chromium"
have chromedriver || missing="$missing chromium-driver"
have npm || missing="$missing npm"
if [ -n "$missing" ]; then
  if ! have apt-get; then
    say "install these with your package manager:$missing"
    exit 1
  fi
  as_root=""
  [ "$(id -u)" = 0 ] || as_root="sudo"
  say "installing$missing"
  $as_root apt-get update -qq
  # shellcheck disable=SC2086 # one word a package
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing
fi

place="$(dirname "$0")/../target/ui"
if ! grep -qs "\"version\": \"$AXE\"" "$place/node_modules/axe-core/package.json"; then
  say "installing axe-core $AXE"
  mkdir -p "$place"
  npm install --silent --no-audit --no-fund --no-save --no-package-lock --ignore-scripts --prefix "$place" "axe-core@$AXE"
fi
