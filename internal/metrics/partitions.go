package metrics

import "github.com/prometheus/client_golang/prometheus"

// Partitions is what one scrape says about the partitions that the metadata gives
// this broker.
type Partitions struct {
	// Led are those that it leads.
	Led int
	// UnderReplicated are led ones of which a replica is not in sync, UnderMinISR
	// those with fewer in sync than min.insync.replicas (or than there are
	// replicas): acks=all is refused there.
	UnderReplicated, UnderMinISR int
	// Unavailable are those that can't be used here: their log is offline or missing.
	Unavailable int
	// Damaged are those in which reads found damaged records.
	Damaged int
	// Failed are those of them whose log could not be made, which is tried again.
	Failed int
}

// partitions collects on scrape, like logs.
type partitions struct {
	source                                   func() Partitions
	led, underReplicated, underMin, unusable *prometheus.Desc
	damaged, failed                          *prometheus.Desc
}

// RegisterPartitions adds how many partitions this broker has in which state,
// asked of source on every scrape.
func RegisterPartitions(reg prometheus.Registerer, source func() Partitions) error {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return reg.Register(&partitions{
		source:          source,
		led:             desc(nameLed, "Partitions that this broker leads."),
		underReplicated: desc(nameUnderReplicated, "Partitions that this broker leads and of which a replica is not in sync."),
		underMin:        desc(nameUnderMinISR, "Partitions that this broker leads and that have fewer replicas in sync than min.insync.replicas: acks=all is refused."),
		unusable:        desc(nameUnavailable, "Partitions of this broker whose log is offline or missing."),
		damaged:         desc(nameDamaged, "Partitions of this broker in which reads found damaged records; the others of the partition are served."),
		failed:          desc(nameUnmade, "Partitions of this broker whose log could not be made; it is tried again until it exists."),
	})
}

// Describe implements prometheus.Collector.
func (p *partitions) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.led, p.underReplicated, p.underMin, p.unusable, p.damaged, p.failed} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *partitions) Collect(ch chan<- prometheus.Metric) {
	now := p.source()
	send := func(d *prometheus.Desc, n int) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	send(p.led, now.Led)
	send(p.underReplicated, now.UnderReplicated)
	send(p.underMin, now.UnderMinISR)
	send(p.unusable, now.Unavailable)
	send(p.damaged, now.Damaged)
	send(p.failed, now.Failed)
}
