// Package daemon is chronikd: it reads the command line, builds the broker's components, starts and
// stops them in order, and serves the admin port.
//
// It owns the life cycle, the exit codes, the log and the admin HTTP server. It promises that, if
// the broker cannot start, it exits with one line of cause and remedy, for a wrong configuration
// before anything on disk has changed; that /readyz succeeds only while clients are served, and
// that a SIGTERM lets accepted requests be answered before the process ends. cmd/chronikd and
// pkg/chronik call it. It is the only package that knows every component, and no component knows
// it.
package daemon
