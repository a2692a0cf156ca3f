package metrics

import "github.com/prometheus/client_golang/prometheus"

// Dir is what one scrape says about one log directory.
type Dir struct {
	Path          string
	JournalBytes  int64  // part of the journal that recovery would read
	JournalLimit  int64  // what it may become
	DeferredBytes int64  // record bytes that the journal has and segments have not
	CachedBytes   int64  // record bytes in memory that segments have too
	OpenFiles     int    // segment files
	FreeBytes     uint64 // left on the directory's file system
	Capacity      uint64 // size of that file system
	JournalFree   uint64 // left on the journal's file system
	FreeKnown     bool   // false where the file systems did not say
	MinFree       int64  // below it records of clients are refused; 0: never
	LowSpace      int    // 0: records are taken, 1: those of clients are refused, 2: all are
}

// dirs collects on scrape, like logs.
type dirs struct {
	source                                         func() []Dir
	journal, limit, deferred, cached, openFiles    *prometheus.Desc
	free, capacity, journalFree, minFree, lowSpace *prometheus.Desc
}

// RegisterDirs adds what log directories hold, asked of source on every scrape.
func RegisterDirs(reg prometheus.Registerer, source func() []Dir) error {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, []string{"dir"}, nil) }
	return reg.Register(&dirs{
		source:      source,
		journal:     desc(nameJournalBytes, "Bytes of journal that recovery would read now."),
		limit:       desc(nameJournalLimit, "Bytes of journal at which commits wait."),
		deferred:    desc(nameDeferredBytes, "Record bytes that are in the journal and not yet in segments."),
		cached:      desc(nameCachedBytes, "Record bytes that are kept in memory for readers and are in segments too."),
		openFiles:   desc(nameOpenFiles, "Segment files that are open now."),
		free:        desc(nameDirFree, "Bytes left on the log directory's file system."),
		capacity:    desc(nameDirCapacity, "Size of the log directory's file system."),
		journalFree: desc(nameJournalFree, "Bytes left on the file system of the log directory's journal, which may be the same."),
		minFree:     desc(nameDirMinFree, "Free bytes below which records of clients are refused (chronik.disk.min.free.bytes); 0 where they never are."),
		lowSpace:    desc(nameDirLowSpace, "0 while records are taken, 1 while too little is free for those of clients, 2 for those of internal topics too."),
	})
}

// Describe implements prometheus.Collector.
func (d *dirs) Describe(ch chan<- *prometheus.Desc) {
	for _, x := range []*prometheus.Desc{d.journal, d.limit, d.deferred, d.cached, d.openFiles, d.free, d.capacity, d.journalFree, d.minFree, d.lowSpace} {
		ch <- x
	}
}

// Collect implements prometheus.Collector.
func (d *dirs) Collect(ch chan<- prometheus.Metric) {
	for _, x := range d.source() {
		send := func(desc *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, x.Path)
		}
		send(d.journal, float64(x.JournalBytes))
		send(d.limit, float64(x.JournalLimit))
		send(d.deferred, float64(x.DeferredBytes))
		send(d.cached, float64(x.CachedBytes))
		send(d.openFiles, float64(x.OpenFiles))
		if x.FreeKnown {
			send(d.free, float64(x.FreeBytes))
			send(d.capacity, float64(x.Capacity))
			send(d.journalFree, float64(x.JournalFree))
		}
		send(d.minFree, float64(x.MinFree))
		send(d.lowSpace, float64(x.LowSpace))
	}
}
