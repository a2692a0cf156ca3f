package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// RegisterSnapshots registers the metrics of snapshots, which all brokers know. Every scrape calls
// source, which returns how many there are, how many of them are damaged, and the newest. interval
// is the pause between two; 0: there is no schedule.
func RegisterSnapshots(reg prometheus.Registerer, interval time.Duration, source func() (n, damaged int, newest view.Snapshot)) error {
	var s scraped
	count := s.gauge(nameSnapshots, "Snapshots of the cluster in the object store.")
	bad := s.gauge(nameSnapshotsDamaged, "Snapshots of which the last verification has found that they cannot be restored.")
	pause := s.gauge(nameSnapshotInterval, "Seconds from one snapshot to the next by the schedule, `snapshot.interval.ms`; 0 means that "+
		"this broker has no schedule, or no object store.")
	newest := s.gauge(nameSnapshotTime, "When the newest snapshot was taken, in seconds since 1970; 0 means that there is none.")
	took := s.gauge(nameSnapshotTook, "Seconds from the beginning of the newest snapshot until it was complete.")
	bytes := s.gauge(nameSnapshotBytes, "Bytes of the records of the newest snapshot.")
	uploaded := s.gauge(nameSnapshotUploaded, "Bytes that the newest snapshot added to the object store.")
	s.read = func(send sendFunc) {
		n, damaged, x := source()
		send(count, float64(n))
		send(bad, float64(damaged))
		send(pause, interval.Seconds())
		send(newest, float64(x.TimeMs)/1000)
		send(took, float64(x.EndedMs-x.TimeMs)/1000)
		send(bytes, float64(x.Bytes))
		send(uploaded, float64(x.UploadedBytes))
	}
	return reg.Register(&s)
}
