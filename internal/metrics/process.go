package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Process is what the daemon reports about itself.
type Process struct {
	// Ready is 1 while clients are served.
	Ready prometheus.Gauge
}

// NewRegistry returns a registry that already has the Go runtime's and the
// process's own metrics.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// NewProcess makes the metrics and registers them; reg may be nil. version is
// what `chronikd version` prints.
func NewProcess(reg prometheus.Registerer, version string) *Process {
	f := promauto.With(reg)
	gauge(f, nameBuild, "Always 1; the labels say what is running.", "version", "go").
		WithLabelValues(version, runtime.Version()).Set(1)
	return &Process{Ready: f.NewGauge(prometheus.GaugeOpts{Name: nameReady, Help: "1 while clients are served."})}
}
