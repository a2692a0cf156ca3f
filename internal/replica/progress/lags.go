package progress

import "time"

// Lags calls each for every follower, with the records of a log that ends at logEnd that it lacks,
// and for how long it has not been caught up. One without a subscription in this leader epoch
// counts as lacking all records.
func (l *Leader) Lags(now time.Duration, logEnd int64, each func(broker int32, records int64, behind time.Duration)) {
	for i := range l.members {
		m := &l.members[i]
		if m.Broker == l.cfg.Self {
			continue
		}
		end, behind := l.start, time.Duration(0)
		if m.counts {
			end = m.written
		}
		if m.lag.behind {
			behind = max(0, now-m.lag.since)
		}
		each(m.Broker, max(0, logEnd-end), behind)
	}
}
