package progress

import (
	"fmt"
	"time"
)

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

// Lacking calls each for every follower that the high watermark waits for, and that lacks records
// below end, or does not have them durably if durable is true. lack describes what it has.
func (l *Leader) Lacking(end int64, durable bool, now time.Duration, each func(broker int32, lack string)) {
	for i := range l.members {
		m := &l.members[i]
		has := l.counted(m)
		if durable {
			has = m.durable
		}
		if m.Broker == l.cfg.Self || !l.maximal(m) || m.counts && has >= end {
			continue
		}
		lack := fmt.Sprintf("has the records below %d", has)
		if !m.counts {
			lack = "has not subscribed since its last start"
		}
		if m.state != streamLive {
			lack += fmt.Sprintf(" and has not followed for %v", max(0, now-m.since).Round(time.Millisecond))
		}
		each(m.Broker, lack)
	}
}

// Blocked returns why the high watermark can't move whatever the followers have; empty if it can.
func (l *Leader) Blocked() string {
	switch {
	case !l.counts:
		return "the metadata does not have this broker's own replica yet"
	case !l.Noted():
		return "the log directory has not noted yet that this broker leads"
	case l.eligible > 0:
		return "the ISR has fewer brokers than min.insync.replicas"
	}
	return ""
}
