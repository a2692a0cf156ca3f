// Package metrics owns every Prometheus metric of the broker: its name, its
// labels, its buckets and its help text.
//
// Each subsystem has one file and one struct, made by New<Subsystem>; the
// daemon makes them once and hands each room its own. A room resolves the
// series that it writes (WithLabelValues) when it starts, never per record.
// The names stand together in names.go.
//
// The package promises that a struct works without being collected: every
// constructor takes a nil Registerer, for tests. It knows nothing of the rooms
// that write into it and imports none of them.
package metrics
