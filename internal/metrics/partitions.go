package metrics

import "github.com/prometheus/client_golang/prometheus"

// Partitions counts the partitions that the metadata assigns to this broker, by state.
type Partitions struct {
	// Led is the number of partitions that the broker leads.
	Led int
	// UnderReplicated is the number of led partitions with a replica that is not in sync.
	// UnderMinISR is the number of those with fewer replicas in sync than min.insync.replicas (or
	// than there are replicas): acks=all is rejected for them.
	UnderReplicated, UnderMinISR int
	// Unavailable is the number of partitions whose log is offline or missing.
	Unavailable int
	// Damaged is the number of partitions with records that were found damaged.
	Damaged int
	// Failed is the number of partitions whose log could not be created, which is retried. They
	// count as Unavailable, too.
	Failed int
}

// RegisterPartitions registers the number of this broker's partitions in each state. Every scrape
// calls source.
func RegisterPartitions(reg prometheus.Registerer, source func() Partitions) error {
	var s scraped
	led := s.gauge(nameLed, "Partitions that this broker leads.")
	underReplicated := s.gauge(nameUnderReplicated, "Partitions that this broker leads and that have a replica out of sync.")
	underMin := s.gauge(nameUnderMinISR,
		"Partitions that this broker leads and that have fewer replicas in sync than min.insync.replicas; acks=all is rejected.")
	unusable := s.gauge(nameUnavailable, "Partitions of this broker whose log is offline or missing.")
	damaged := s.gauge(nameDamaged, "Partitions of this broker with records that were found damaged; their other records are served.")
	failed := s.gauge(nameFailed, "Partitions of this broker whose log could not be created; the broker retries until it exists.")
	s.read = func(send sendFunc) {
		now := source()
		send(led, float64(now.Led))
		send(underReplicated, float64(now.UnderReplicated))
		send(underMin, float64(now.UnderMinISR))
		send(unusable, float64(now.Unavailable))
		send(damaged, float64(now.Damaged))
		send(failed, float64(now.Failed))
	}
	return reg.Register(&s)
}
