package metrics

import "github.com/prometheus/client_golang/prometheus"

// Log describes one partition's log, for one scrape.
type Log struct {
	Topic     string
	Partition string // decimal
	Size      int64  // bytes of its segments
	Start     int64  // log start offset
	End       int64  // log end offset
}

// LogSource provides the logs for a scrape. EachLog calls yield for each log, in the goroutine of
// the scrape. It must not take a lock that a request waits for.
type LogSource interface {
	EachLog(yield func(Log))
}

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
		source.EachLog(func(x Log) {
			names[x.Topic] = struct{}{}
			n++
			total += x.Size
			if each {
				send(size, float64(x.Size), x.Topic, x.Partition)
				send(start, float64(x.Start), x.Topic, x.Partition)
				send(end, float64(x.End), x.Topic, x.Partition)
			}
		})
		send(topics, float64(len(names)))
		send(parts, float64(n))
		send(all, float64(total))
	}
	return reg.Register(&s)
}
