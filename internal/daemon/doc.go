// Package daemon is chronikd: it reads the command line, builds every room of
// the broker, starts and stops them in order, and serves the admin port.
//
// It owns the life cycle, the exit codes, the log and the admin HTTP server. It
// promises that a start which cannot succeed ends with one line of cause and
// remedy before anything was changed on disk, that /readyz says yes only while
// clients are served, and that a SIGTERM answers what was accepted before the
// process ends. cmd/chronikd and pkg/chronik call it. It is the only package
// that knows every room, and no room knows it.
package daemon
