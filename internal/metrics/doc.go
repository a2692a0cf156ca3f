// Package metrics owns every Prometheus metric of the broker: its name, its labels, its buckets and
// its help text.
//
// Each subsystem has one file and one struct, created by New<Subsystem>; the daemon creates them
// once and passes each component its own. A component resolves the series that it writes
// (WithLabelValues) when it starts, never per record. names.go lists the names.
//
// A struct works without being collected: every constructor accepts a nil Registerer, for tests.
// The package knows nothing of the components that write its metrics and imports none of them.
package metrics
