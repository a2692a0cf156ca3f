package cluster

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A log in which this broker led counts as one of that epoch, although no record has it.
func TestAReportNamesTheEpochInWhichALogLed(t *testing.T) {
	m, err := storage.Open([]storage.Location{{Path: "/d"}}, storage.Options{FS: vfs.Memory(), JournalFileSize: 1 << 20,
		Config: func(string, storage.ID) storage.Config { return storage.Config{} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	tp := metadata.TopicPartition{Topic: [16]byte{1}}
	logs, err := m.CreateIn(m.Dirs()[0], []storage.Spec{{ID: storage.ID{Topic: tp.Topic}, Topic: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	l, reports := logs[0], &Logs{Storage: m}
	l.SetLeaderEpoch(5, true)
	l.NoteLed(5)
	for begin := time.Now(); l.LedEpoch() != 5; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("the epoch is not noted")
		}
	}
	l.SetLeaderEpoch(6, false) // forgets that epoch 5 began, which has no record
	if epoch, _ := l.LastEpoch(); epoch != -1 {
		t.Errorf("last epoch %d", epoch)
	}
	if got, ok := reports.logEnd(tp); got != (election.LogState{LastEpoch: 5, RecordEpoch: -1}) || !ok {
		t.Errorf("%+v, %t", got, ok)
	}
}
