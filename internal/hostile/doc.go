// Package hostile attacks a broker over the Kafka protocol, without logging in, and measures what that costs others.
//
// It owns the attacks (Attacks), each with bounds on what the broker may hold for it and for how long, the clients that
// suffer (Watch), and the report. An attack uses any means that a client has: it lies about lengths and counts, repeats
// itself, does not read its answers, and leaves.
//
// It promises that an attack reaches what it is aimed at, or says what became of it (Mob.Outcomes): a broker that closes
// the connection defends itself, and that is no error here. cmd/chronikd's tests run the attacks against the real binary
// (`make hostile`, `make hostile-soak`). The package must not know the broker's insides, nor how its memory is measured.
package hostile
