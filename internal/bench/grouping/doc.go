// Package grouping measures a broker's consumer groups: what heartbeats of many members
// cost it, how long a large group takes to come to rest after somebody came or went, and
// how many offsets can be committed in a second.
//
// It promises that members behave as clients do: each has a connection of its own, joins,
// takes what it is given, gives up what it is asked for and says so; and that a group counts
// as at rest only when all its members have told the same epoch and every partition is at
// one of them. bench/command calls it. It speaks the protocol from outside and must not
// know the broker's insides.
package grouping
