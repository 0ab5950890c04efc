#!/bin/sh
# Installs the prebuilt llama.cpp libraries of one platform into
# engine/PLATFORM/node_modules and gives them the short names by which
# muster-worker opens them. Does nothing, and asks no network, when what the
# lock names is there already.
#
#   engine/install.sh [PLATFORM]     without one: this machine's
set -eu
cd "$(dirname "$0")"

say() { printf 'engine: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

this_platform() {
	case "$(uname -s)/$(uname -m)" in
	Linux/x86_64) echo linux-x64 ;;
	Linux/aarch64) echo linux-arm64 ;;
	Darwin/arm64) echo mac-arm64-metal ;;
	Darwin/x86_64) echo mac-x64 ;;
	MINGW*/x86_64 | MSYS*/x86_64) echo win-x64 ;;
	MINGW*/aarch64 | MSYS*/aarch64) echo win-arm64 ;;
	*) die "no prebuilt llama.cpp for $(uname -s) on $(uname -m); give muster a folder of libraries of version 0.4.0 with --engine" ;;
	esac
}

digest() {
	if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

# libllama.cuda.v0.4.0.so is reached as libllama.so, llama.v0.4.0.dll as llama.dll.
link_short_names() (
	cd "$1"
	for library in *llama.v[0-9]* *llama.*.v[0-9]* *ggml.v[0-9]* *ggml.*.v[0-9]*; do
		[ -f "$library" ] || continue
		short=${library%%.*}.${library##*.}
		[ -e "$short" ] || ln -sf "$library" "$short"
	done
)

installed() { [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; }

# A platform named by hand may be another machine's, which npm refuses without
# --force; the lock's digests are checked all the same.
platform=${1:-}
force=${platform:+--force}
platform=${platform:-$(this_platform)}
[ -f "$platform/package-lock.json" ] || die "no platform $platform; there are: $(echo */ | tr -d /)"
stamp=$platform/node_modules/.installed
want=$(digest "$platform/package-lock.json")
libraries=$platform/node_modules/@node-llama-cpp/$platform/bins/$platform

if ! installed; then
	command -v npm >/dev/null || die "npm is needed to fetch llama.cpp: apt-get install npm"
	say "fetching llama.cpp for $platform"
	(cd "$platform" && npm ci --ignore-scripts $force --no-audit --no-fund --loglevel=error >/dev/null) ||
		die "npm could not install $platform; its words stand above"
fi
[ -d "$libraries" ] || die "the package of $platform holds no folder $libraries; remove engine/$platform/node_modules and try again"
link_short_names "$libraries"
installed || echo "$want" >"$stamp"
say "llama.cpp is in engine/$libraries"
