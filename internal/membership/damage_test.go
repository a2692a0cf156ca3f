package membership

import (
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
)

// The controller refuses a heartbeat that reports too many logs. A broker with more damaged logs
// must not be fenced for that.
func TestAReportOfManyDamagedLogs(t *testing.T) {
	few, many := [16]byte{1}, [16]byte{2}
	failed, low := metadata.UnableDir{ID: [16]byte{3}, Why: metadata.DirFailed}, metadata.UnableDir{ID: many, Why: metadata.DirLow}
	var damaged []DamagedLog
	add := func(dir [16]byte, n int) {
		for range n {
			damaged = append(damaged, DamagedLog{metadata.TopicPartition{Partition: int32(len(damaged))}, dir, false})
		}
	}
	add(few, 10)
	add(many, controller.MaxReportedDamaged-10)
	out := BrokerState{Unable: []metadata.UnableDir{low, failed}}
	out.AddDamage(damaged)
	if len(out.Damaged) != controller.MaxReportedDamaged || len(out.Unable) != 2 {
		t.Errorf("as many as allowed: %d logs and %d directories", len(out.Damaged), len(out.Unable))
	}
	add(many, 1)
	out = BrokerState{Unable: []metadata.UnableDir{low, failed}}
	out.AddDamage(damaged)
	if len(out.Damaged) != 10 || !slices.Equal(out.Unable, []metadata.UnableDir{failed, {ID: many, Why: metadata.DirFailed}}) {
		t.Errorf("one more: %d logs and %v", len(out.Damaged), out.Unable)
	}
	for i := range damaged {
		damaged[i].Only = i > 0
	}
	out = BrokerState{Unable: []metadata.UnableDir{low, failed}}
	if out.AddDamage(damaged); len(out.Damaged) != 1 || len(out.Unable) != 2 {
		t.Errorf("too many that are the only replica: %d logs and %v", len(out.Damaged), out.Unable)
	}
}
