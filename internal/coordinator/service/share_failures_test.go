package service

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
)

// One cause of all groups and topics is few lines: clients choose the names of groups.
func TestOneCauseOfManyShareGroupsIsFewLines(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress} {
		core, said := observer.New(zap.WarnLevel)
		f := &shareFailures{log: zap.New(core), image: metadata.Empty}
		for g := range 3000 { // each of 1,000 groups three times
			q := &shareRequest{what: "begun", group: fmt.Sprint(g % 1000)}
			for topic := range byte(5) {
				q.partitions = append(q.partitions, group.SharePartition{Topic: [16]byte{topic}})
			}
			f.note(q, []*kerr.Error{code, code, code, code, code})
		}
		if n := said.Len(); n == 0 || n > 16 {
			t.Errorf("%s: %d lines of 1,000 groups with 5 topics", code.Message, n)
		}
	}
}
