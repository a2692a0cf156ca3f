package checks

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestRecordsThatAreNotCopied(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	failing := func(topic string, partition int32, age time.Duration, err string) TierFailure {
		return TierFailure{Topic: topic, Partition: partition, Since: now.Add(-age), Error: err}
	}
	put := func(topic string, partition int) string {
		return fmt.Sprintf("put %016x/log/%032x: name what the store has of %s-%d: %v", partition+7, partition+1, topic, partition,
			errors.New("no space on the device"))
	}
	var many []TierFailure
	for i := range 7 {
		many = append(many, failing("orders", int32(i), time.Hour+time.Duration(i)*time.Minute, put("orders", i)))
	}
	facts := func(list ...TierFailure) Facts { return Facts{Now: now, Uncopied: list} }
	examine(t, "tier", []patient{
		{"copies all", facts(), nil},
		{"fails for a moment", facts(failing("t", 0, 3*time.Minute-time.Second, "refused")), nil},
		{"fails", facts(failing("t", 0, 3*time.Minute, "refused"), failing("t", 1, time.Minute, "refused")),
			[]string{"warn copies in the object store: no record of 1 partition was copied to the object store since 2026-01-02T03:01:05Z (t-0: refused); " +
				"the local disks keep what is not copied, and fill up"}},
		{"cannot read", Facts{Now: now, Unread: []TierFailure{failing("t", 0, time.Second, "object x is missing")}},
			[]string{"bad reads from the object store: records of 1 partition that only the object store has cannot be read since " +
				"2026-01-02T03:04:04Z (t-0: object x is missing)"}},
		{"fails for one reason", facts(many...), []string{"warn copies in the object store: no record of 7 partitions was copied to the object store " +
			"since 2026-01-02T01:58:05Z (orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more: " + put("orders", 0) + "); the local disks"}},
		{"fails for several reasons", facts(failing("a", 0, time.Hour, "one"), failing("b", 0, time.Hour, "two"),
			failing("c", 0, time.Hour, "three"), failing("d", 0, time.Hour, "four"), failing("e", 0, time.Hour, "one")),
			[]string{"warn copies in the object store: no record of 5 partitions was copied to the object store since 2026-01-02T02:04:05Z " +
				"(a-0, e-0: one; b-0: two; c-0: three; 1 other reason); the local disks"}},
	})
}
