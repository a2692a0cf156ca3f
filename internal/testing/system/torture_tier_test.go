package system

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// The faults of TestClusterUnderFaults, while all records older than a second or two are only in
// the object store: the local disks keep a segment or two. What was acknowledged is read from the
// store at the end.
func TestTieredRecordsUnderFaults(t *testing.T) {
	inTorture(t)
	underFaults(t, 3, "archive.url=file://"+t.TempDir(), "snapshot.interval.ms=5000", "snapshot.keep=3",
		"remote.log.manager.task.interval.ms=300", "log.retention.check.interval.ms=500")
}

// tiered has the topics keep their old records in the object store, if there is one.
func (c *torture) tiered() {
	for _, set := range c.set {
		if url, ok := strings.CutPrefix(set, "archive.url=file://"); ok {
			c.store = url
			c.limits = map[string]*string{"remote.storage.enable": kadm.StringPtr("true"), "segment.ms": kadm.StringPtr("1000"),
				"local.retention.ms": kadm.StringPtr("1000"), "file.delete.delay.ms": kadm.StringPtr("0")}
		}
	}
}

// inStore requires that most records are only in the object store.
func (c *torture) inStore(t *testing.T) {
	t.Helper()
	objects, err := filepath.Glob(filepath.Join(c.store, "*", "log", "*", "*", "*"))
	if err != nil || len(objects) < torturePartitions {
		t.Errorf("the object store has %d objects with records (%v)", len(objects), err)
	}
	short, local, all := 0, 0, 0
	for _, dir := range c.dirs[:c.holders] {
		logs := dumped(t, filepath.Join(dir, "d"))
		for p := range int32(torturePartitions) { // a log may be empty: all of it is in the store
			local, all = local+len(logs[p]), all+len(c.acked[p])
			if len(logs[p]) < len(c.acked[p])/2 {
				short++
			}
		}
	}
	t.Logf("the local logs have %d records, of %d that were acknowledged", local, all)
	if short == 0 {
		t.Error("the local logs still have at least half of all records")
	}
}
