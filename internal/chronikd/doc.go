// Package chronikd is the command line of chronikd: its commands and flags, its manual pages, its
// log, the signals that drain or end the process, and the reports to systemd.
//
// It promises that a command that fails ends with an exit code of its kind and one line of cause
// and remedy. Package daemon is the broker that it starts, which a Go program can start without it.
package chronikd
