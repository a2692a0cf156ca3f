// Package supervise reports the life of a broker to systemd: readiness, a status text, time for a
// start that makes progress, and keep-alives of a watchdog as long as the broker makes progress.
//
// It sees the broker as its clients and an operator do: by a request through its first listener, by
// its status, and by what its log directories have written. A serving broker gets a keep-alive only
// if it makes progress, and a check of that takes at most ten seconds. It restarts nothing: systemd
// does. It does not know of what parts the broker consists.
package supervise
