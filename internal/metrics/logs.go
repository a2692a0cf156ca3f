package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// LogSource calls yield for each log, in the goroutine of the scrape. It must not take a lock that
// a request waits for long.
type LogSource func(yield func(*view.Log))

// RegisterLogs registers the sizes and offsets of all logs, and the number of topics and
// partitions. Only a scrape calls source, so that idle partitions cost nothing between scrapes. If
// each is false, it exports only the numbers and the total size.
func RegisterLogs(reg prometheus.Registerer, each bool, source LogSource) error {
	var s scraped
	all := s.gauge(nameLogsSize, "Bytes of all partitions' segments.")
	size := s.gauge(nameLogSize, "Bytes of a partition's segments.", "topic", "partition")
	start := s.gauge(nameLogStart, "First offset of a partition that can be read.", "topic", "partition")
	end := s.gauge(nameLogEnd, "Offset of the next record of a partition.", "topic", "partition")
	topics := s.gauge(nameTopics, "Topics with at least one log on this broker.")
	parts := s.gauge(namePartitions, "Partitions with a log on this broker.")
	s.read = func(send sendFunc) {
		names := make(map[string]struct{})
		n, total := 0, int64(0)
		source(func(x *view.Log) {
			names[x.Topic] = struct{}{}
			n++
			total += x.Bytes
			if each {
				partition := strconv.Itoa(int(x.Partition))
				send(size, float64(x.Bytes), x.Topic, partition)
				send(start, float64(x.LogStart), x.Topic, partition)
				send(end, float64(x.LogEnd), x.Topic, partition)
			}
		})
		send(topics, float64(len(names)))
		send(parts, float64(n))
		send(all, float64(total))
	}
	return reg.Register(&s)
}
