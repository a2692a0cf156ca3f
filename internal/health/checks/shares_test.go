package checks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

func TestSharePartitionsThatDeliverNothing(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	slow := func(x view.SlowShare) Facts {
		x.Group, x.Topic, x.Partition, x.Start = "g", "t", 2, 7
		return Facts{Now: now, SlowShares: []view.SlowShare{x}}
	}
	const share = "share group g of t-2: no records are delivered"
	examine(t, "group", []patient{
		{"takes its time", slow(view.SlowShare{Loading: shareLoaded - 1, Writing: shareStored - 1, Full: shareMoved - 1}), nil},
		{"cannot be loaded", slow(view.SlowShare{Failed: true}), []string{"bad " + share + ": its stored state cannot be used"}},
		{"loads for long", slow(view.SlowShare{Loading: shareLoaded}),
			[]string{"warn " + share + ": its state has been loading since 2026-01-02T03:03:05Z"}},
		{"has no state", slow(view.SlowShare{Absent: true, Loading: shareLoaded, Unloaded: "no state"}),
			[]string{"warn " + share + " since 2026-01-02T03:03:05Z, although members fetch: no state"}},
		{"cannot read its log", slow(view.SlowShare{Loading: shareLoaded, Unloaded: "input/output error"}),
			[]string{"warn " + share + ": loads of its state have failed since 2026-01-02T03:03:05Z: input/output error"}},
		{"is not stored", slow(view.SlowShare{Writing: shareStored}), []string{"bad " + share +
			", and acknowledgements fail: a write to its share coordinator has had no answer since 2026-01-02T03:03:35Z"}},
		{"dead letters cannot be copied", slow(view.SlowShare{Uncopied: shareCopied, Uncopyable: "no such topic", Archiving: 1}), []string{
			"warn share group g of t-2: 1 record waits for the copy in the topic of dead letters, as no copy was possible since " +
				"2026-01-02T03:03:35Z: no such topic"}},
		{"dead letters wait in a full window", slow(view.SlowShare{Full: shareMoved, Archiving: 3}), []string{"warn " + share +
			": its window has been full since 2026-01-02T02:59:05Z, and 3 records wait for the copy in the topic of dead letters"}},
		{"is blocked", slow(view.SlowShare{Full: shareMoved}), []string{"warn " + share +
			": its window has been full since 2026-01-02T02:59:05Z, as no member finishes the record at offset 7"}},
	})
	many := Facts{SlowShares: append(slices.Repeat([]view.SlowShare{{Full: shareMoved}}, mostGroups+1), view.SlowShare{Failed: true})}
	if found, _ := findingsOf(t, "group", many); len(found) != mostGroups+1 || !strings.HasPrefix(found[0], "bad ") ||
		found[mostGroups] != "warn share groups: 2 more share partitions do not deliver records" {
		t.Errorf("%q", found)
	}
}
