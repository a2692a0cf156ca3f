package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Process holds the metrics of the daemon itself.
type Process struct {
	// Ready is 1 while clients are served.
	Ready prometheus.Gauge
}

// OfProcess returns a registry with the metrics of the Go runtime and of the process. It is not
// that of a broker: a program that embeds one has these metrics itself, and serves both.
func OfProcess() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Use returns the processor time of the process in seconds, and its resident memory in bytes. They
// are 0 if the system does not show them.
func Use() (cpu, resident float64) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := reg.Gather()
	if err != nil {
		return 0, 0
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "process_cpu_seconds_total":
				cpu = m.GetCounter().GetValue()
			case "process_resident_memory_bytes":
				resident = m.GetGauge().GetValue()
			}
		}
	}
	return cpu, resident
}

// NewProcess creates the metrics and registers them; reg may be nil. version is the output of
// `chronikd version`.
func NewProcess(reg prometheus.Registerer, version string) *Process {
	f := promauto.With(reg)
	gauge(f, nameBuild, "Always 1; the labels show the version of chronik and Go.", "version", "go").
		WithLabelValues(version, runtime.Version()).Set(1)
	return &Process{Ready: f.NewGauge(prometheus.GaugeOpts{Name: nameReady, Help: "1 while clients are served, otherwise 0."})}
}
