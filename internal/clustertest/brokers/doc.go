// Package brokers runs three whole brokers in one process under virtual time: all of a broker but
// its kernel, as package daemon starts it, with clients that speak Kafka's protocol. The network is
// a simtcp.Net, the disks are those of crashfs, and a synctest bubble is the clock.
//
// A history is a seed: it determines when which fault occurs, how long bytes travel, what a power
// loss leaves, and every random number of the brokers. Faults are kills, losses of power of one
// machine, two or all, replaced disks, pauses, cuts in one direction or both, failing directories,
// stops, and partitions that move. In the end everything is healed and judged: with package check,
// the records (lost, vanished, duplicate, phantom, out of order, different replicas), a group's
// offsets, a setting and topics; and that all replicas are in sync again within two minutes.
//
// A seed replays the faults exactly. It does not determine the order in which goroutines run at the
// same virtual instant, nor the random numbers of package math/rand/v2 that clients draw, so a
// history that depends on such a race recurs often and not always; run it several times.
//
// A paused broker's network and disk stand still, but its clocks continue: unlike one that gets
// SIGSTOP, it knows at once when its lease is over.
package brokers
