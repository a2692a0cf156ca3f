package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// RegisterDirs registers the state of the log directories. Every scrape calls source.
func RegisterDirs(reg prometheus.Registerer, source func() []view.Dir) error {
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
	arriving := s.gauge(nameDirArriving, "Bytes still to be copied of the logs that move to the directory.", "dir")
	s.read = func(send sendFunc) {
		all := source()
		for i := range all {
			x := &all[i]
			if x.Unopened {
				send(online, 0, x.Path)
				continue
			}
			send(online, truth(x.Error == ""), x.Path)
			send(journal, float64(x.JournalBytes), x.Path)
			send(limit, float64(x.JournalLimit), x.Path)
			send(deferred, float64(x.Deferred), x.Path)
			send(cached, float64(x.Cached), x.Path)
			send(openFiles, float64(x.OpenFiles), x.Path)
			if x.Space.Known() {
				send(free, float64(x.Free), x.Path)
				send(capacity, float64(x.Total), x.Path)
				send(journalFree, float64(x.JournalFree), x.Path)
			}
			send(minFree, float64(x.MinFree), x.Path)
			send(lowSpace, float64(x.Refuses), x.Path)
			send(arriving, float64(x.Left()), x.Path)
		}
	}
	return reg.Register(&s)
}
