package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// RegisterTier registers the metrics of records that are copied to the object store and read there.
// Every scrape calls source. They have no labels of topics, so that their number is fixed.
func RegisterTier(reg prometheus.Registerer, source func() view.Tiering) error {
	var s scraped
	partitions := s.gauge(nameTierPartitions, "Partitions that this broker leads and that have copies in the object store, or will have.")
	failing := s.gauge(nameTierFailing, "Partitions that this broker leads and whose records it cannot copy to the object store.")
	size := s.gauge(nameTierSize, "Bytes of the batches that the object store has of the partitions that this broker leads.")
	lag := s.gauge(nameTierLag, "Records of full segments, or all as soon as 80 MiB wait, that this broker has not copied to the "+
		"object store yet.")
	lagBytes := s.gauge(nameTierLagBytes, "About how many bytes the records of "+nameTierLag+" have.")
	objects := s.counter(nameTierObjects, "Objects with records that this broker has copied to the object store.")
	copied := s.counter(nameTierCopied, "Bytes of the batches that this broker has copied to the object store.")
	failures := s.counter(nameTierFailures, "Attempts to copy records of a partition, or to remove old copies, that failed.")
	read := s.counter(nameTierRead, "Bytes that the object store has returned for reads of records.")
	readFailures := s.counter(nameTierReadFailures, "Transfers from the object store that failed.")
	lookups := s.counter(nameTierLookups, "Lookups of pieces of objects in the cache of `archive.cache.bytes`, by result.", "result")
	cached := s.gauge(nameTierCached, "Bytes in that cache.")
	transfers := s.gauge(nameTierTransfers, "Transfers from the object store that run, or wait for others to end.", "state")
	s.read = func(send sendFunc) {
		x := source()
		send(partitions, float64(x.Partitions))
		send(failing, float64(x.Failing))
		send(size, float64(x.Bytes))
		send(lag, float64(x.Pending))
		send(lagBytes, float64(x.PendingBytes))
		send(objects, float64(x.Objects))
		send(copied, float64(x.Copied))
		send(failures, float64(x.Failures))
		send(read, float64(x.Reads.Bytes))
		send(readFailures, float64(x.Reads.Failures))
		send(lookups, float64(x.Reads.Hits), "hit")
		send(lookups, float64(x.Reads.Misses), "miss")
		send(cached, float64(x.Reads.Cached))
		send(transfers, float64(x.Reads.Running), "running")
		send(transfers, float64(x.Reads.Waiting), "waiting")
	}
	return reg.Register(&s)
}
