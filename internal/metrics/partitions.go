package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// RegisterPartitions registers the number of this broker's partitions in each state. Every scrape
// calls both sources.
func RegisterPartitions(reg prometheus.Registerer, cluster func() *view.Cluster, logs LogSource) error {
	var s scraped
	led := s.gauge(nameLed, "Partitions that this broker leads.")
	underReplicated := s.gauge(nameUnderReplicated, "Partitions that this broker leads and that have a replica out of sync.")
	underMin := s.gauge(nameUnderMinISR,
		"Partitions that this broker leads and that have fewer replicas in sync than min.insync.replicas; acks=all is rejected.")
	unusable := s.gauge(nameUnavailable, "Partitions of this broker whose log is offline or missing.")
	damaged := s.gauge(nameDamaged, "Partitions of this broker with records that were found damaged; their other records are served.")
	failed := s.gauge(nameFailed, "Partitions of this broker whose log could not be created; the broker retries until it exists.")
	s.read = func(send sendFunc) {
		c := cluster()
		self := c.Of(c.Self)
		send(led, float64(self.Leads))
		send(underReplicated, float64(self.UnderReplicated))
		send(underMin, float64(self.UnderMinISR))
		nUnusable, nDamaged, nFailed := 0, 0, 0
		logs(func(x *view.Log) {
			if x.Offline {
				nUnusable++
			}
			if x.Damaged != "" {
				nDamaged++
			}
			if x.Retried {
				nFailed++
			}
		})
		send(unusable, float64(nUnusable))
		send(damaged, float64(nDamaged))
		send(failed, float64(nFailed))
	}
	return reg.Register(&s)
}
