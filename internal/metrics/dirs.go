package metrics

import "github.com/prometheus/client_golang/prometheus"

// Dir describes one log directory, for one scrape.
type Dir struct {
	Path          string
	Online        bool   // it accepts records
	Unopened      bool   // it could not be opened at startup; only Path is set
	JournalBytes  int64  // part of the journal that recovery would read
	JournalLimit  int64  // size limit of the journal
	DeferredBytes int64  // record bytes in the journal and not yet in segments
	CachedBytes   int64  // record bytes in memory and in segments
	OpenFiles     int    // segment files
	FreeBytes     uint64 // on the directory's file system
	Capacity      uint64 // size of that file system
	JournalFree   uint64 // bytes free on the journal's file system
	FreeKnown     bool   // false if the file systems could not be measured
	MinFree       int64  // below it records of clients are rejected; 0: never
	LowSpace      int    // 0: records are accepted, 1: those of clients are rejected, 2: all are
}

// RegisterDirs registers the state of the log directories. Every scrape calls source.
func RegisterDirs(reg prometheus.Registerer, source func() []Dir) error {
	var s scraped
	online := s.gauge(nameDirOnline, "1 while the log directory accepts records, otherwise 0.", "dir")
	journal := s.gauge(nameJournalBytes, "Bytes of the journal that recovery would read now.", "dir")
	limit := s.gauge(nameJournalLimit, "Size of the journal, in bytes, at which commits wait.", "dir")
	deferred := s.gauge(nameDeferredBytes, "Record bytes that are in the journal and not yet in segments.", "dir")
	cached := s.gauge(nameCachedBytes, "Record bytes that are cached in memory for readers and are also in segments.", "dir")
	openFiles := s.gauge(nameOpenFiles, "Open segment files.", "dir")
	free := s.gauge(nameDirFree, "Free bytes on the log directory's file system.", "dir")
	capacity := s.gauge(nameDirCapacity, "Size of the log directory's file system in bytes.", "dir")
	journalFree := s.gauge(nameJournalFree, "Free bytes on the file system of the log directory's journal, which may be the same.", "dir")
	minFree := s.gauge(nameDirMinFree,
		"Free bytes below which records of clients are rejected (chronik.disk.min.free.bytes); 0: never.", "dir")
	lowSpace := s.gauge(nameDirLowSpace,
		"0: the broker accepts records; 1: it rejects records of clients for lack of space; 2: it also rejects records of internal topics.", "dir")
	s.read = func(send sendFunc) {
		for _, x := range source() {
			if x.Unopened {
				send(online, 0, x.Path)
				continue
			}
			send(online, boolValue(x.Online), x.Path)
			send(journal, float64(x.JournalBytes), x.Path)
			send(limit, float64(x.JournalLimit), x.Path)
			send(deferred, float64(x.DeferredBytes), x.Path)
			send(cached, float64(x.CachedBytes), x.Path)
			send(openFiles, float64(x.OpenFiles), x.Path)
			if x.FreeKnown {
				send(free, float64(x.FreeBytes), x.Path)
				send(capacity, float64(x.Capacity), x.Path)
				send(journalFree, float64(x.JournalFree), x.Path)
			}
			send(minFree, float64(x.MinFree), x.Path)
			send(lowSpace, float64(x.LowSpace), x.Path)
		}
	}
	return reg.Register(&s)
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
