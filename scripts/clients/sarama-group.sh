#!/usr/bin/env bash
# Groups of sarama consumers, built in a module of their own under .cache. Sarama
# knows neither patterns nor KIP-848.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_sarama sarama-member "$here/groups/sarama.go"
variants=("-protocol classic")
[ -n "${QUICK:-}" ] || variants+=("-static" "-assignor sticky" "-assignor roundrobin")
group_of sarama "${variants[@]}" -- "$program"
