package durability

import (
	"testing"
	"time"
)

// counting is a policy that closes at 3 records and asks for an hour before.
type counting struct{}

func (counting) Close(g Group) (bool, time.Duration) { return g.Records >= 3, time.Hour }

// never waits without returning a time.
type never struct{}

func (never) Close(Group) (bool, time.Duration) { return false, 0 }

func TestWhenAGroupCloses(t *testing.T) {
	const ms = time.Millisecond
	waits := Profile{Name: "w", Ack: Synced, Sync: SyncGroup, MaxWait: 10 * ms, MaxRecords: 100, MaxBytes: 1 << 20}
	immediate := waits
	immediate.MaxWait = 0
	policy := waits
	policy.Policy, policy.MaxRecords, policy.MaxBytes = counting{}, 0, 0
	silent := waits
	silent.Policy = never{}
	for _, c := range []struct {
		name string
		p    Profile
		g    Group
		now  bool
		wait time.Duration
	}{
		{"a profile without a wait never waits", immediate, Group{Records: 1, Bytes: 1, Absent: 9}, true, 0},
		{"nor one that forms no groups", Profile{Ack: Written, Sync: SyncOS}, Group{Records: 1, Absent: 9}, true, 0},
		{"the first entry opens the window", waits, Group{Records: 1, Bytes: 1, Absent: 9}, false, 10 * ms},
		{"which counts from that entry", waits, Group{Records: 2, Bytes: 2, Age: 4 * ms, Absent: 9}, false, 6 * ms},
		{"and closes the group when it ends", waits, Group{Records: 2, Bytes: 2, Age: 10 * ms, Absent: 9}, true, 0},
		{"records close it", waits, Group{Records: 100, Bytes: 1, Absent: 9}, true, 0},
		{"one less does not", waits, Group{Records: 99, Bytes: 1<<20 - 1, Absent: 9}, false, 10 * ms},
		{"bytes close it", waits, Group{Records: 1, Bytes: 1 << 20, Absent: 9}, true, 0},
		{"it closes early when no producer is absent", waits, Group{Records: 1, Bytes: 1, Absent: 0}, true, 0},
		{"or one among many", waits, Group{Records: 48, Bytes: 1, Absent: 3}, true, 0},
		{"but not one among few", waits, Group{Records: 47, Bytes: 1, Absent: 3}, false, 10 * ms},
		{"it waits for twice the gap", waits, Group{Records: 1, Bytes: 1, Age: 4 * ms, Absent: 9, Gap: ms, Idle: ms / 2}, false,
			3 * ms / 2},
		{"and closes when arrivals dried up", waits, Group{Records: 1, Bytes: 1, Age: 4 * ms, Absent: 9, Gap: ms, Idle: 2 * ms}, true, 0},
		{"a long gap does not lengthen the window", waits, Group{Records: 1, Bytes: 1, Age: 4 * ms, Absent: 9, Gap: time.Hour}, false,
			6 * ms},
		{"a policy decides", policy, Group{Records: 3, Absent: 9}, true, 0},
		{"within the window", policy, Group{Records: 2, Bytes: 1 << 30, Age: ms}, false, 9 * ms},
		{"which bounds it", policy, Group{Records: 2, Age: 10 * ms}, true, 0},
		{"a policy that names no wait closes the group", silent, Group{Records: 1, Absent: 9}, true, 0},
	} {
		if now, wait := c.p.Close(c.g); now != c.now || wait != c.wait {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, now, wait, c.now, c.wait)
		}
	}
}

// 128 clients that each wait for their answer: whatever the window, the group
// The group closes with the last few of them and not with the window.
func TestAClosedLoopNeverPaysTheWindow(t *testing.T) {
	for _, p := range Builtin() {
		const clients = 128
		for n := 1; n <= clients; n++ {
			now, _ := p.Close(Group{Records: n, Bytes: int64(350 * n), Age: time.Microsecond, Absent: clients - n})
			if waiting := p.MaxWait > 0 && (clients-n)*few > n; now == waiting {
				t.Errorf("%s with %d of %d clients in the group: now = %v", p.Name, n, clients, now)
			}
		}
	}
}
