package configdef

import (
	"fmt"
	"time"
)

// Names of the configs of single share groups (KIP-932) about records. Those whose names begin with
// chronik are not in Kafka.
const (
	shareLocks      = "share.partition.max.record.locks"
	shareDeliveries = "share.delivery.count.limit"
	shareLock       = "share.record.lock.duration.ms"
	shareRenew      = "share.renew.acknowledge.enable"
	shareRetry      = "chronik.share.retry.backoff.ms"
	shareRetryMax   = "chronik.share.retry.backoff.max.ms"
)

// ShareRecords has the settings of how a share group gets records.
type ShareRecords struct {
	Locks           int64 // offsets that may be in flight in a partition
	Deliveries      int32 // of a record
	Lock            time.Duration
	Renew           bool          // whether a member may renew its locks
	Retry, RetryMax time.Duration // after the first release of a record, and after each

	// DeadLetters is the topic of dead letters, empty for none. WholeLetters copies the records.
	DeadLetters  string
	WholeLetters bool
}

// shareRecordDefs are the broker configs of how share groups get records.
func shareRecordDefs() []*Def {
	const locks, deliveries, lock = "group." + shareLocks, "group." + shareDeliveries, "group." + shareLock
	return []*Def{
		brokerDef(locks, Int, "2000",
			"The number of offsets of a partition, from the first one that is not finished, in which a share group (KIP-932) acquires records.",
			between(100, 10_000)),
		brokerDef("group.share.min.partition.max.record.locks", Int, "100",
			"The minimum share.partition.max.record.locks that can be set on a group.", between(100, 10_000)),
		brokerDef("group.share.max.partition.max.record.locks", Int, "4000",
			"The maximum share.partition.max.record.locks that can be set on a group.", between(100, 10_000)),
		brokerDef(deliveries, Int, "5", "The number of times that a record is delivered to the members of a share group.", between(2, 10)),
		brokerDef("group.share.min.delivery.count.limit", Int, "2",
			"The minimum share.delivery.count.limit that can be set on a group.", between(2, 5)),
		brokerDef("group.share.max.delivery.count.limit", Int, "10",
			"The maximum share.delivery.count.limit that can be set on a group.", between(5, 25)),
		brokerDef(lock, Int, "30000",
			"The number of milliseconds for which a member of a share group may keep a record without an acknowledgement.",
			between(1000, 3_600_000)),
		brokerDef("group.share.min.record.lock.duration.ms", Int, "15000",
			"The minimum share.record.lock.duration.ms that can be set on a group.", between(1000, 30_000)),
		brokerDef("group.share.max.record.lock.duration.ms", Int, "60000",
			"The maximum share.record.lock.duration.ms that can be set on a group.", between(30_000, 3_600_000)),
		brokerDef("group.share.max.share.sessions", Int, "2000", "The maximum number of share sessions of a broker.", between(1, 1<<31-1)),
	}
}

// singleShareRecordDefs are the configs of a single share group about records.
func singleShareRecordDefs() []*Def {
	return []*Def{
		topicDef(shareLocks, Int, "2000",
			"The number of offsets of a partition, from the first one that is not finished, in which the group acquires records.",
			from("group."+shareLocks), boundedByBroker(shareLocks)),
		topicDef(shareDeliveries, Int, "5", "The number of times that a record is delivered to the members of the group.",
			from("group."+shareDeliveries), boundedByBroker(shareDeliveries)),
		topicDef(shareLock, Int, "30000",
			"The number of milliseconds for which a member of the group may keep a record without an acknowledgement.",
			from("group."+shareLock), boundedByBroker(shareLock)),
		topicDef(shareRenew, Boolean, "true", "Whether the members of the group may renew the locks of their records."),
		topicDef(shareRetry, Int, "0",
			"The number of milliseconds for which a record that a member has released is not delivered again. It doubles with each further delivery.",
			atLeast(0)),
		topicDef(shareRetryMax, Int, "60000", "The maximum number of milliseconds for which a released record is not delivered again.",
			atLeast(0)),
	}
}

// intLimit is a limit of the broker for a config of a group.
type intLimit struct {
	name      string
	low, high int64
	min, max  string // the broker's settings
}

// checkShareRecords checks the configs of a group that the broker's settings limit.
func (r *Registry) checkShareRecords(set map[string]string, limits *Groups) error {
	for _, c := range []intLimit{
		{shareLocks, limits.ShareMin.Locks, limits.ShareMax.Locks,
			"group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
		{shareDeliveries, int64(limits.ShareMin.Deliveries), int64(limits.ShareMax.Deliveries),
			"group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"},
		{shareLock, limits.ShareMin.Lock.Milliseconds(), limits.ShareMax.Lock.Milliseconds(),
			"group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	} {
		raw, ok := set[c.name]
		if !ok {
			continue
		}
		v, err := r.group[c.name].parse(raw)
		switch {
		case err != nil:
			return err
		case v.n < c.low:
			return atLeastThat(c.name, c.min)
		case v.n > c.high:
			return atMostThat(c.name, c.max)
		}
	}
	return nil
}

// checkShareRecords compares settings that must fit together.
func (g *Groups) checkShareRecords() error {
	for _, c := range []struct {
		low, value, high int64
		name             string // without the prefix share
	}{
		{g.ShareMin.Locks, g.Share.Locks, g.ShareMax.Locks, "partition.max.record.locks"},
		{int64(g.ShareMin.Deliveries), int64(g.Share.Deliveries), int64(g.ShareMax.Deliveries), "delivery.count.limit"},
		{int64(g.ShareMin.Lock), int64(g.Share.Lock), int64(g.ShareMax.Lock), "record.lock.duration.ms"},
	} {
		low, value, high := "group.share.min."+c.name, "group.share."+c.name, "group.share.max."+c.name
		switch {
		case c.low > c.high:
			return atLeastThat(high, low)
		case c.value < c.low:
			return atLeastThat(value, low)
		case c.value > c.high:
			return &Error{value, fmt.Sprintf("%s must be less than or equal to %s", value, high)}
		}
	}
	return nil
}

// shareRecords reads the settings of a share group: of the broker's configs with the prefix group.,
// which have no retry delay, or of a group's.
func (f *reader) shareRecords(prefix string) ShareRecords {
	s := ShareRecords{Locks: f.value(prefix + shareLocks).n, Deliveries: int32(f.value(prefix + shareDeliveries).n),
		Lock: milliseconds(f.value(prefix + shareLock).n)}
	if prefix == "" {
		s.Renew = f.value(shareRenew).b
		s.Retry, s.RetryMax = milliseconds(f.value(shareRetry).n), milliseconds(f.value(shareRetryMax).n)
		s.DeadLetters, s.WholeLetters = f.value(deadLetterTopic).s, f.value(deadLetterWhole).b
	}
	return s
}

// ShareOf returns the settings of a share group within the broker's limits, which may have changed
// since the group's were set.
func (g *Groups) ShareOf(s ShareRecords) ShareRecords {
	s.Locks = min(max(s.Locks, g.ShareMin.Locks), g.ShareMax.Locks)
	s.Deliveries = min(max(s.Deliveries, g.ShareMin.Deliveries), g.ShareMax.Deliveries)
	s.Lock = min(max(s.Lock, g.ShareMin.Lock), g.ShareMax.Lock)
	return s
}
