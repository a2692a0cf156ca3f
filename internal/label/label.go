// Package label names goroutines in Go's profiles: the part of the broker that runs, and the
// directory, listener or broker that it works for. docs/troubleshooting.md shows how to read them.
//
// A goroutine has the labels of the one that started it until it sets its own. A value is one of
// few: never a partition, a client or an address of a connection. The package knows none of these
// parts, and imports no other package of the broker.
package label

import (
	"context"
	"runtime/pprof"
)

// The names of the labels.
const (
	Part = "part" // "storage scrub": a package, and the task in it
	Of   = "of"   // the path of a directory or the name of a listener; missing if there is only one
)

// Label is what many goroutines are labeled with. The zero Label changes nothing.
type Label struct{ labels context.Context }

// New returns a Label. of may be empty.
func New(part, of string) Label {
	pairs := []string{Part, part}
	if of != "" {
		pairs = append(pairs, Of, of)
	}
	return Label{pprof.WithLabels(context.Background(), pprof.Labels(pairs...))}
}

// Set labels the calling goroutine. It costs a few nanoseconds and allocates nothing.
func (l Label) Set() {
	if l.labels != nil {
		pprof.SetGoroutineLabels(l.labels)
	}
}

// Goroutine labels the calling goroutine. One that many connections or requests start has a Label
// that was made once.
func Goroutine(part, of string) { New(part, of).Set() }
