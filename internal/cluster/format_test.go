package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/view"
)

// Exact texts of the requests and answers, so that no change of the format goes unnoticed.
func TestFormatIsFixed(t *testing.T) {
	tp := metadata.TopicPartition{Topic: metadata.ID{1}, Partition: 7}
	var b strings.Builder
	for _, v := range []any{
		unregisterRequest{3}, electRequest{[]metadata.TopicPartition{tp}}, outcome{6, []refusal{{}, {1, "why"}, {0, "failed"}}},
		controller.Quorum{Leader: 1, Term: 2, Commit: 3, Members: []controller.QuorumMember{{Member: 1, Voter: true, End: 3, Silent: 4}}},
		reportsRequest{metadata.ID{9}, []metadata.TopicPartition{tp}},
		reportsAnswer{[]logReport{{TopicPartition: tp, LastEpoch: 2, RecordEpoch: new(int32), End: 100}}},
		view.SnapshotAsk{Action: "create", Number: 1, AllowOffline: true}, view.SnapshotAnswer{ID: 1, Term: 2, Error: "why"},
		view.Snapshots{URL: "s3://bucket", IntervalMs: 1, Term: 2, Running: &view.RunningSnapshot{Number: 3, SinceMs: 4, UploadedBytes: 5,
			TotalBytes: 6}, Failures: 7, LastError: "why", LastFailureMs: 8, Asked: 9,
			Outcomes: []view.SnapshotOutcome{{ID: 10, Number: 11, Error: "why", Offline: true}}},
	} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%T %s\n\n", v, text)
	}
	golden.File(t, "testdata/messages.json", strings.TrimSuffix(b.String(), "\n"), "go test ./internal/cluster -run FormatIsFixed")
}
