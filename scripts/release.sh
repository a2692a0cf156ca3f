#!/usr/bin/env bash
# release.sh TOOL [FLAG...]   runs TOOL, which scripts/release builds, and then the command of SIGN,
# if it is set, with SHA256SUMS as its last argument and in its directory. The command must leave a
# signature in a new file whose name begins with SHA256SUMS, such as
#
#   SIGN='gpg --batch --armor --detach-sign'                  SHA256SUMS.asc
#   SIGN='minisign -S -s KEY -m'                              SHA256SUMS.minisig
#   SIGN='cosign sign-blob --yes --bundle SHA256SUMS.bundle'  SHA256SUMS.bundle
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tool="$1"
shift
mkdir -p .cache # a clone has none
"$tool" "$@" | tee .cache/release.log
[ -n "${SIGN:-}" ] || { echo "not signed: SIGN names no command (SECURITY.md)"; exit 0; }
into="$(sed -n '1s/.* in //p' .cache/release.log)"
cd "$into"
bash -c "$SIGN SHA256SUMS" || { echo "SIGN failed: $SIGN SHA256SUMS" >&2; exit 1; }
ls SHA256SUMS.* >/dev/null 2>&1 || { echo "$SIGN SHA256SUMS left no file SHA256SUMS.* in $into" >&2; exit 1; }
echo "signed: $(echo SHA256SUMS.*)"
