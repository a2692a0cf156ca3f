package refusals

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

// A table counts the last minute, with the longest wait and the newest reason, since the first
// refusal after a minute without any.
func TestRefusalsOfTheLastMinute(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	table := New(func() time.Time { return now })
	bob := Who{User: "bob", Address: "10.0.0.1"}
	refuse := func(wait time.Duration, why string) {
		table.Refused(view.RefusedQuota, "producer_byte_rate", "user=bob", bob, wait, func() (string, string) { return why, "" })
	}
	began := now
	for range 30 { // 5 minutes
		refuse(time.Second, "old")
		refuse(time.Minute, "unread")
		now = now.Add(slot)
	}
	refuse(3*time.Second, "new")
	all := table.Last()
	if len(all) != 1 || all[0].Count != 13 || all[0].Longest != time.Minute || all[0].Detail != "new" || all[0].Who != bob ||
		!all[0].Since.Equal(began) {
		t.Errorf("%+v", all)
	}
	now = now.Add(slots * slot)
	if all := table.Last(); len(all) != 0 {
		t.Errorf("a minute later: %+v", all)
	}
	refuse(0, "again")
	if all := table.Last(); len(all) != 1 || !all[0].Since.Equal(now) || all[0].Count != 1 {
		t.Errorf("again: %+v", all)
	}
}

// A long name ends with a whole character.
func TestALongName(t *testing.T) {
	table := New(time.Now)
	table.Refused(view.RefusedLogin, "PLAIN", "", Who{ClientID: "c" + strings.Repeat("é", 200)}, 0, nil)
	if got, want := table.Last()[0].Who.ClientID, "c"+strings.Repeat("é", 127); got != want {
		t.Errorf("%q", got)
	}
}

// A long reason ends with a whole word.
func TestALongReason(t *testing.T) {
	table := New(time.Now)
	table.Refused(view.RefusedLogin, "PLAIN", "", Who{}, 0, func() (string, string) { return strings.Repeat("reasons ", 40), "" })
	if got, want := table.Last()[0].Detail, strings.Repeat("reasons ", 31)+"reasons …"; got != want {
		t.Errorf("%q", got)
	}
}

// What passes is counted of the users who are refused, and of all together, while something is
// refused.
func TestWhatPassesIsCounted(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	table := New(func() time.Time { return now })
	table.Passed(view.RefusedRight, "User:bob")
	table.Refused(view.RefusedRight, "WRITE on TOPIC", "", Who{User: "User:bob"}, 0, nil)
	for range 2 {
		table.Passed(view.RefusedRight, "User:bob")
	}
	table.Passed(view.RefusedRight, "User:eve")
	if all := table.Last(); len(all) != 1 || all[0].Passed != 2 || all[0].PassedAll != 3 {
		t.Errorf("%+v", all)
	}
	now = now.Add(slots * slot)
	table.Passed(view.RefusedRight, "User:bob")
	table.Refused(view.RefusedRight, "WRITE on TOPIC", "", Who{User: "User:bob"}, 0, nil)
	if all := table.Last(); len(all) != 1 || all[0].Passed != 0 {
		t.Errorf("a minute later: %+v", all)
	}
	var none *Table
	none.Refused(view.RefusedRight, "", "", Who{}, 0, nil)
	none.Passed(view.RefusedRight, "")
}

// Attackers have as many names and addresses as they like: what they do is counted, but not
// remembered. Those that come after a minute are known again.
func TestATableHasBounds(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	table := New(func() time.Time { return now })
	for i := range 10 * maxEntries {
		table.Refused(view.RefusedLogin, "PLAIN", "clients", Who{User: fmt.Sprint(i)}, 0, nil)
		table.Passed(view.RefusedLogin, fmt.Sprint(i))
	}
	k := &table.kinds[view.RefusedLogin]
	if len(k.entries) > maxEntries+1 || len(k.passed) > maxEntries+2 {
		t.Errorf("%d entries, %d users", len(k.entries), len(k.passed))
	}
	all := table.Last()
	if all[0].Who != (Who{}) || all[0].Count != 9*maxEntries {
		t.Errorf("the others: %+v", all[0])
	}
	now = now.Add(slots * slot)
	table.Refused(view.RefusedLogin, "PLAIN", "clients", Who{User: "new"}, 0, nil)
	if all := table.Last(); len(all) != 1 || all[0].Who.User != "new" {
		t.Errorf("a minute later: %+v", all)
	}
}
