#!/usr/bin/env bash
# Groups of franz-go consumers.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
(cd "$root" && go build -o "$WORK/kgo-member" ./scripts/clients/groups)
variants=("-protocol classic" "-protocol consumer")
# Not static ones with KIP-848: franz-go leaves without its instance id, which Kafka refuses too.
[ -n "${QUICK:-}" ] || variants+=("-static" "-regex" "-regex -protocol consumer" "-protocol mixed" "-assignor range" "-assignor range -protocol consumer")
group_of kgo "${variants[@]}" -- "$WORK/kgo-member" member
