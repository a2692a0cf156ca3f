package configdef

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Names of the configs of single share groups (KIP-932) about members and where the group starts.
const (
	shareSession   = "share.session.timeout.ms"
	shareHeartbeat = "share.heartbeat.interval.ms"
	shareInterval  = "share.assignment.interval.ms"
	shareReset     = "share.auto.offset.reset"
	shareIsolation = "share.isolation.level"
)

// ShareGroup has the settings of a share group about members and about what it reads.
type ShareGroup struct {
	Session, Heartbeat time.Duration
	Interval           time.Duration // between two assignments
	Start              ShareStart    // of partitions that the group reads for the first time
	Committed          bool          // only records of committed transactions
}

// ShareStart is where a share group starts to read a partition.
type ShareStart struct {
	Earliest bool
	// Ago, if it is set, is the age of the first record. Neither: the end of the log.
	Ago time.Duration
}

// shareGroupDefs are the broker configs of share groups about members.
func shareGroupDefs() []*Def {
	return []*Def{
		brokerDef("group.share.session.timeout.ms", Int, "45000",
			"The number of milliseconds without a heartbeat after which a member of a share group (KIP-932) is removed. "+
				"A lower one gives the records of a dead member to others sooner, and removes members that pause.", atLeast(1)),
		brokerDef("group.share.min.session.timeout.ms", Int, "45000",
			"The minimum share.session.timeout.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.share.max.session.timeout.ms", Int, "60000",
			"The maximum share.session.timeout.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.share.heartbeat.interval.ms", Int, "5000",
			"The interval in milliseconds at which the broker asks the members of share groups to send heartbeats. "+
				"With a lower one, members learn of changes sooner and send more requests.", atLeast(1)),
		brokerDef("group.share.min.heartbeat.interval.ms", Int, "5000",
			"The minimum share.heartbeat.interval.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.share.max.heartbeat.interval.ms", Int, "15000",
			"The maximum share.heartbeat.interval.ms that can be set on a group.", atLeast(1)),
		brokerDef("group.share.assignment.interval.ms", Int, "1000",
			"The minimum number of milliseconds between two assignments of a share group's partitions. "+
				"With a larger one, members that join together share one assignment, and each waits longer for it.", atLeast(0)),
		brokerDef("group.share.min.assignment.interval.ms", Int, "0",
			"The minimum share.assignment.interval.ms that can be set on a group.", atLeast(0)),
		brokerDef("group.share.max.assignment.interval.ms", Int, "15000",
			"The maximum share.assignment.interval.ms that can be set on a group.", atLeast(0)),
		brokerDef("group.share.max.size", Int, "200", "The maximum number of members of a share group. "+
			"Further ones are refused, which bounds the memory and the time of an assignment.", between(1, 1000)),
		brokerDef("group.share.initialize.retry.interval.ms", Int, "30000",
			"The maximum number of milliseconds after which the broker repeats a failed request for the states of a share group's partitions.",
			atLeast(1)),
	}
}

// singleShareGroupDefs are the configs of a single share group about members and what it reads.
func singleShareGroupDefs() []*Def {
	return []*Def{
		topicDef(shareSession, Int, "45000", "The number of milliseconds without a heartbeat after which a member of the group is removed.",
			from("group."+shareSession), boundedByBroker(shareSession)),
		topicDef(shareHeartbeat, Int, "5000",
			"The interval in milliseconds at which the broker asks the members of the group to send heartbeats.",
			from("group."+shareHeartbeat), boundedByBroker(shareHeartbeat)),
		topicDef(shareInterval, Int, "1000", "The minimum number of milliseconds between two assignments of the group's partitions.",
			from("group."+shareInterval), boundedByBroker(shareInterval)),
		topicDef(shareReset, String, "latest",
			"Where the group starts in a partition that it has not read yet. The duration is the age of the first record, in the notation of ISO 8601, such as PT1H30M.",
			bounded("latest, earliest, or by_duration: and a duration", func(d *Def, v value) error {
				if _, ok := parseStart(v.s); !ok {
					return d.invalid(v.s, "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'")
				}
				return nil
			})),
		topicDef(shareIsolation, String, "read_uncommitted", "Whether the group reads only records of committed transactions.",
			oneOf("read_committed", "read_uncommitted")),
	}
}

var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,9}))?S)?)?$`)

// maxAgo bounds the duration of share.auto.offset.reset, so that it fits into a time.Duration.
const maxAgo = 100_000 * 24 * time.Hour

// parseStart parses a value of share.auto.offset.reset.
func parseStart(s string) (ShareStart, bool) {
	switch s {
	case "latest":
		return ShareStart{}, true
	case "earliest":
		return ShareStart{Earliest: true}, true
	}
	duration, ok := strings.CutPrefix(s, "by_duration:")
	parts := isoDuration.FindStringSubmatch(strings.ToUpper(duration))
	if !ok || parts == nil || parts[2] == "T" || parts[1] == "" && parts[2] == "" {
		return ShareStart{}, false
	}
	var ago time.Duration
	for i, unit := range map[int]time.Duration{1: 24 * time.Hour, 3: time.Hour, 4: time.Minute, 5: time.Second} {
		n, err := strconv.ParseInt("0"+parts[i], 10, 64)
		if err != nil || n > int64(maxAgo/unit) {
			return ShareStart{}, false
		}
		if ago += time.Duration(n) * unit; ago > maxAgo {
			return ShareStart{}, false
		}
	}
	nanos, _ := strconv.Atoi((parts[6] + "000000000")[:9])
	return ShareStart{Ago: ago + time.Duration(nanos)}, true
}

// shareGroup reads the settings of a share group: of the broker's configs with the prefix group.,
// which do not say what it reads, or of a group's.
func (f *reader) shareGroup(prefix string) ShareGroup {
	s := ShareGroup{Session: milliseconds(f.value(prefix + shareSession).n), Heartbeat: milliseconds(f.value(prefix + shareHeartbeat).n),
		Interval: milliseconds(f.value(prefix + shareInterval).n)}
	if prefix == "" {
		s.Start, _ = parseStart(f.value(shareReset).s)
		s.Committed = f.value(shareIsolation).s == "read_committed"
	}
	return s
}

// shareGroupBound reads the limits for the configs of a single group: min or max.
func (f *reader) shareGroupBound(which string) ShareGroup {
	bound := func(name string) time.Duration {
		return milliseconds(f.value("group.share." + which + "." + strings.TrimPrefix(name, "share.")).n)
	}
	return ShareGroup{Session: bound(shareSession), Heartbeat: bound(shareHeartbeat), Interval: bound(shareInterval)}
}

// checkShareGroup compares settings that must fit together.
func (g *Groups) checkShareGroup() error {
	low, own, high := &g.ShareGroupMin, &g.ShareGroup, &g.ShareGroupMax
	for _, c := range []struct {
		low, value, high time.Duration
		name             string // without the prefix share
	}{
		{low.Heartbeat, own.Heartbeat, high.Heartbeat, "heartbeat.interval.ms"},
		{low.Session, own.Session, high.Session, "session.timeout.ms"},
		{low.Interval, own.Interval, high.Interval, "assignment.interval.ms"},
	} {
		lowest, value, highest := "group.share.min."+c.name, "group.share."+c.name, "group.share.max."+c.name
		switch {
		case c.low > c.high:
			return atLeastThat(highest, lowest)
		case c.value < c.low:
			return atLeastThat(value, lowest)
		case c.value > c.high:
			return atMostThat(value, highest)
		}
	}
	if own.Heartbeat >= own.Session {
		const heartbeat = "group.share.heartbeat.interval.ms"
		return &Error{heartbeat, heartbeat + " must be less than group.share.session.timeout.ms"}
	}
	return nil
}

// checkShareGroup checks the configs of a group that the broker's settings limit.
func (r *Registry) checkShareGroup(set map[string]string, limits *Groups) error {
	g, low, high := limits.ShareGroup, &limits.ShareGroupMin, &limits.ShareGroupMax
	for _, c := range []limit{
		{shareSession, &g.Session, low.Session, high.Session,
			"group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"},
		{shareHeartbeat, &g.Heartbeat, low.Heartbeat, high.Heartbeat,
			"group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
		{shareInterval, &g.Interval, low.Interval, high.Interval,
			"group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	} {
		if err := r.checkLimit(set, c); err != nil {
			return err
		}
	}
	if len(set) > 0 && g.Heartbeat >= g.Session {
		return &Error{shareSession, fmt.Sprintf("%s must be greater than %s", shareSession, shareHeartbeat)}
	}
	return nil
}

// ShareGroupOf returns the settings of a share group within the broker's limits, which may have
// changed since the group's were set.
func (g *Groups) ShareGroupOf(s ShareGroup) ShareGroup {
	low, high := &g.ShareGroupMin, &g.ShareGroupMax
	s.Session = min(max(s.Session, low.Session), high.Session)
	s.Heartbeat = min(max(s.Heartbeat, low.Heartbeat), high.Heartbeat)
	s.Interval = min(max(s.Interval, low.Interval), high.Interval)
	return s
}
