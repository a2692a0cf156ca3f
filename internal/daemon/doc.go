// Package daemon is a broker: it builds the components, connects them, starts and stops them in
// order, and opens the admin port.
//
// It owns the life cycle, and decides nothing that a component or a package below it can decide:
// datadir judges directories, guard opens what decides about clients, cluster connects a member
// with its cluster, observe reads components for health and metrics. It promises that, if the
// broker cannot start, the error is one line of cause and remedy with an exit code, for a wrong
// configuration before anything on disk has changed; that /readyz succeeds only while clients are
// served, and that Close answers accepted requests before it returns. internal/chronikd and
// pkg/chronik call it. With the packages below it, it is the only one that knows every component,
// and no component knows it.
package daemon
