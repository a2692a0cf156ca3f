#!/usr/bin/env bash
# Groups of sarama consumers, built in a module of their own under .cache. Sarama
# knows neither patterns nor KIP-848.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
version=v1.61.1
dir="$root/.cache/sarama-$version"
mkdir -p "$dir"
grep -v '^//go:build ignore$' "$here/groups/sarama.go" >"$WORK/sarama.go"
if ! cmp -s "$WORK/sarama.go" "$dir/main.go" || ! [ -x "$dir/member" ]; then
  cp "$WORK/sarama.go" "$dir/main.go"
  (
    cd "$dir"
    [ -f go.mod ] || go mod init sarama-member
    GOFLAGS=-mod=mod go get "github.com/IBM/sarama@$version"
    GOFLAGS=-mod=mod go build -o member .
  ) >"$WORK/sarama.log" 2>&1 || { tail -5 "$WORK/sarama.log"; rm -rf "$dir"; missing "sarama $version could not be built: does this machine reach a Go module proxy?"; }
fi
variants=("-protocol classic")
[ -n "${QUICK:-}" ] || variants+=("-static" "-assignor sticky" "-assignor roundrobin")
group_of sarama "${variants[@]}" -- "$dir/member"
