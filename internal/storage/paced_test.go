package storage

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// Small records of the broker's own logs do not have large ones of clients written in pieces: a
// transaction would slow its own records, and a consumer that commits offsets what it reads.
func TestOwnRecordsDoNotPaceThoseOfClients(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	client, internal := ours(t, d)
	time.Sleep(time.Second) // a start counts as small records
	before := time.Now()    // a machine that is slow until the question must not hide the answer
	put(t, internal, 3, 100)
	if d.journal.SmallTraffic(before) {
		t.Error("records of an internal topic count")
	}
	put(t, client, 3, 100)
	if !d.journal.SmallTraffic(before) {
		t.Error("records of a client do not count")
	}
}
