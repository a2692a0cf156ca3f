package metrics

import "github.com/prometheus/client_golang/prometheus"

// Log is what one scrape says about one partition's log.
type Log struct {
	Topic     string
	Partition string // decimal
	Size      int64  // bytes of its segments
	Start     int64  // first offset that can be read
	End       int64  // offset that the next record gets
}

// LogSource is asked on every scrape. It calls yield for each log, from the
// goroutine of the scrape, and may take no lock that a request waits for.
type LogSource interface {
	EachLog(yield func(Log))
}

// logs collects sizes and ends on scrape, so that 10,000 idle partitions cost
// nothing between scrapes.
type logs struct {
	source                               LogSource
	each                                 bool
	size, start, end, topics, parts, all *prometheus.Desc
}

// RegisterLogs adds size and ends of every log, and the number of topics and
// partitions, read from source on every scrape. Without each there are only the
// numbers and the size of all logs.
func RegisterLogs(reg prometheus.Registerer, each bool, source LogSource) error {
	by := []string{"topic", "partition"}
	return reg.Register(&logs{
		source: source, each: each,
		all:    prometheus.NewDesc(nameLogsSize, "Bytes of all partitions' segments.", nil, nil),
		size:   prometheus.NewDesc(nameLogSize, "Bytes of a partition's segments.", by, nil),
		start:  prometheus.NewDesc(nameLogStart, "First offset of a partition that can be read.", by, nil),
		end:    prometheus.NewDesc(nameLogEnd, "Offset that the next record of a partition gets.", by, nil),
		topics: prometheus.NewDesc(nameTopics, "Topics with at least one log here.", nil, nil),
		parts:  prometheus.NewDesc(namePartitions, "Partitions with a log here.", nil, nil),
	})
}

// Describe implements prometheus.Collector.
func (l *logs) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{l.size, l.start, l.end, l.topics, l.parts, l.all} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (l *logs) Collect(ch chan<- prometheus.Metric) {
	topics := make(map[string]struct{})
	n, size := 0, int64(0)
	l.source.EachLog(func(x Log) {
		topics[x.Topic] = struct{}{}
		n++
		size += x.Size
		if !l.each {
			return
		}
		ch <- prometheus.MustNewConstMetric(l.size, prometheus.GaugeValue, float64(x.Size), x.Topic, x.Partition)
		ch <- prometheus.MustNewConstMetric(l.start, prometheus.GaugeValue, float64(x.Start), x.Topic, x.Partition)
		ch <- prometheus.MustNewConstMetric(l.end, prometheus.GaugeValue, float64(x.End), x.Topic, x.Partition)
	})
	ch <- prometheus.MustNewConstMetric(l.topics, prometheus.GaugeValue, float64(len(topics)))
	ch <- prometheus.MustNewConstMetric(l.parts, prometheus.GaugeValue, float64(n))
	ch <- prometheus.MustNewConstMetric(l.all, prometheus.GaugeValue, float64(size))
}
