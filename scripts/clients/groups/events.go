package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A member is configured by variables: BOOTSTRAP, GROUP, MEMBER (its client id), TOPIC (a name, or
// a regular expression that begins with ^), PROTOCOL (classic or consumer), ASSIGNOR, INSTANCE and
// SESSION_MS (each empty for the client's default). It starts at the earliest offset if none is
// committed, looks for new partitions about every second, commits the records that it has read
// before it reads further, and leaves on SIGTERM with exit code 0. It prints these lines without
// buffering:
//
//	A TOPIC:PARTITION...                 further partitions were assigned
//	L TOPIC:PARTITION...                 partitions were revoked or lost
//	R TOPIC PARTITION OFFSET VALUE       it read a record
//	C TOPIC PARTITION OFFSET             its commit was acknowledged
//	E anything                           an error that may happen
//
// A client that does not learn of its commits' success omits C.
const (
	evAssigned  = 'A'
	evLost      = 'L'
	evRead      = 'R'
	evCommitted = 'C'
	evError     = 'E'
)

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.topic, p.partition) }

// event is one line of a member.
type event struct {
	kind   byte
	places []place
	offset int64
	value  string
}

func parseEvent(line string) (event, error) {
	fields := strings.Fields(line)
	if len(fields) == 0 || len(fields[0]) != 1 {
		return event{}, fmt.Errorf("not an event: %q", line)
	}
	ev := event{kind: fields[0][0]}
	switch {
	case ev.kind == evError:
		return ev, nil
	case ev.kind == evAssigned || ev.kind == evLost:
		for _, f := range fields[1:] {
			i := strings.LastIndexByte(f, ':')
			if i < 0 {
				return event{}, fmt.Errorf("%q in %q is not TOPIC:PARTITION", f, line)
			}
			p, err := strconv.ParseInt(f[i+1:], 10, 32)
			if err != nil {
				return event{}, fmt.Errorf("%q: %w", line, err)
			}
			ev.places = append(ev.places, place{f[:i], int32(p)})
		}
		return ev, nil
	case ev.kind == evRead && len(fields) == 5:
		ev.value = fields[4]
	case ev.kind == evCommitted && len(fields) == 4:
	default:
		return event{}, fmt.Errorf("not an event: %q", line)
	}
	p, err := strconv.ParseInt(fields[2], 10, 32)
	if err != nil {
		return event{}, fmt.Errorf("%q: %w", line, err)
	}
	if ev.offset, err = strconv.ParseInt(fields[3], 10, 64); err != nil {
		return event{}, fmt.Errorf("%q: %w", line, err)
	}
	ev.places = []place{{fields[1], int32(p)}}
	return ev, nil
}
