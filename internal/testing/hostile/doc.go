// Package hostile attacks a broker over the Kafka protocol, without authentication, and measures
// the effect on others.
//
// It owns the attacks (Attacks), each with limits on the memory that the broker may hold for it and
// for how long, the clients that are affected (Watch), and the report. An attack uses any means
// that a client has: it sends wrong lengths and counts, repeats itself, does not read responses,
// and disconnects.
//
// It promises that an attack reaches its aim or reports its outcome (Attacker.Outcomes): a broker
// that closes the connection defends itself, which is not an error here. internal/testing/system
// runs the attacks against the real binary (`make hostile`, `make hostile-soak`). The package knows
// neither the broker's internals nor how its memory is measured.
package hostile
