#!/usr/bin/env bash
# Groups of kafkajs consumers. Kafkajs knows neither instance ids nor KIP-848,
# and looks for the topics of a pattern only when it subscribes.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_kafkajs
group_of kafkajs "-protocol classic" -- node "$here/groups/kafkajs.js"
