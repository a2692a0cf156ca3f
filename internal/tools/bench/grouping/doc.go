// Package grouping measures a broker's consumer groups: the cost of the heartbeats of many members,
// how long a large group takes to become stable after a member joins or leaves, and the rate of
// offset commits.
//
// It promises that members behave as clients do: each has its own connection, joins, and follows
// and confirms its assignment, including revocations; and that a group counts as stable only when
// all its members have reported the same epoch and every partition is assigned to one of them.
// bench/command calls it. It speaks the protocol from outside and must not know the broker's
// internals.
package grouping
