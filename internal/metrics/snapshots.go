package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// RegisterSnapshots registers the metrics of snapshots, which all brokers know. Every scrape calls
// source, which returns how many there are, and the newest.
func RegisterSnapshots(reg prometheus.Registerer, source func() (n int, newest view.Snapshot)) error {
	var s scraped
	count := s.gauge(nameSnapshots, "Snapshots of the cluster in the object store.")
	newest := s.gauge(nameSnapshotTime, "When the newest snapshot was taken, in seconds since 1970; 0 means that there is none.")
	took := s.gauge(nameSnapshotTook, "Seconds from the beginning of the newest snapshot until it was complete.")
	bytes := s.gauge(nameSnapshotBytes, "Bytes of the records of the newest snapshot.")
	uploaded := s.gauge(nameSnapshotUploaded, "Bytes that the newest snapshot added to the object store.")
	s.read = func(send sendFunc) {
		n, x := source()
		send(count, float64(n))
		send(newest, float64(x.TimeMs)/1000)
		send(took, float64(x.EndedMs-x.TimeMs)/1000)
		send(bytes, float64(x.Bytes))
		send(uploaded, float64(x.UploadedBytes))
	}
	return reg.Register(&s)
}
