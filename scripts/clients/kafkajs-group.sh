#!/usr/bin/env bash
# Groups of kafkajs consumers. Kafkajs knows neither instance ids nor KIP-848,
# and looks for the topics of a pattern only when it subscribes.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
version=2.2.4
command -v node >/dev/null || missing "node is not installed"
export NODE_PATH="$root/.cache/kafkajs-$version/node_modules"
if ! [ -d "$NODE_PATH/kafkajs" ]; then
  command -v npm >/dev/null || missing "kafkajs is not there and npm is not installed"
  npm install --silent --prefix "${NODE_PATH%/node_modules}" "kafkajs@$version" >"$WORK/npm.log" 2>&1 ||
    { tail -5 "$WORK/npm.log"; missing "kafkajs $version could not be installed: does this machine reach a registry?"; }
fi
group_of kafkajs "-protocol classic" -- node "$here/groups/kafkajs.js"
