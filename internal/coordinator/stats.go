package coordinator

import "time"

// Stats are the figures of one shard.
type Stats struct {
	Partition int32
	Epoch     int32
	State     string // idle, draining, loading, active
	Waiting   int64  // unanswered requests
	Events    int64  // requests handled since the start
	Appends   int64
	Records   int64 // appended
	Failures  int64 // failed appends and loads
	Refused   int64 // requests refused because the log accepted no records
	Loaded    int64 // records read by the last load
	LoadTime  time.Duration
}

func (s *shard) stats() Stats {
	c := &s.count
	return Stats{
		Partition: s.partition, Epoch: c.epoch.Load(), State: phase(c.phase.Load()).String(), Waiting: c.waiting.Load(),
		Events:  c.events.Load(),
		Appends: c.appends.Load(), Records: c.records.Load(), Failures: c.failures.Load(), Refused: c.refused.Load(),
		Loaded:   c.loaded.Load(),
		LoadTime: time.Duration(c.loadNanos.Load()),
	}
}

func (p phase) String() string {
	switch p {
	case draining:
		return "draining"
	case loading:
		return "loading"
	case active:
		return "active"
	}
	return "idle"
}
