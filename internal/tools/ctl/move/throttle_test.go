package move

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// Every change of a topic's configs concerns all of its partitions. So moves are named ahead, and
// again only if another command has removed their names; in the end no name is left.
func TestMovesAreNamedAhead(t *testing.T) {
	b := chronik.StartTest(t, chronik.Options{})
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	must.OK(t, err)
	defer cl.Close()
	adm, ctx := kadm.NewClient(cl), t.Context()
	_, err = adm.CreateTopic(ctx, 400, 1, nil, "t")
	must.OK(t, err)
	var moves []Move
	for n := range int32(400) {
		moves = append(moves, Move{partition: partition{"t", n}, from: []int32{1}, to: []int32{2}})
	}
	named := func() (list []string) {
		configs, err := adm.DescribeTopicConfigs(ctx, "t")
		must.OK(t, err)
		for _, kv := range configs[0].Configs {
			if kv.Key == followerReplicas && kv.MaybeValue() != "" {
				list = strings.Split(kv.MaybeValue(), ",")
			}
		}
		return list
	}
	entry := func(n int) string { return fmt.Sprintf("%d:2", n) }
	l := newLimit(adm, cl, 1<<20, t.Logf)

	must.OK(t, l.set(ctx, moves[:10], moves[10:]))
	first := named()
	if len(first) != 10+ahead || !slices.Contains(first, entry(0)) || !slices.Contains(first, entry(9+ahead)) {
		t.Fatalf("%d are named: %v", len(first), first)
	}
	must.OK(t, l.set(ctx, moves[10:20], moves[20:]))
	if again := named(); !slices.Equal(again, first) {
		t.Errorf("named again: %v", again)
	}
	must.OK(t, l.release(ctx, map[string]bool{"t": true})) // as another command
	if left := named(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	must.OK(t, l.set(ctx, moves[20:30], moves[30:]))
	if again := named(); len(again) != 10 || !slices.Contains(again, entry(25)) {
		t.Errorf("after a release: %v", again)
	}
	must.OK(t, l.set(ctx, moves[255:265], moves[265:]))
	if next := named(); len(next) != 145 || slices.Contains(next, entry(25)) || !slices.Contains(next, entry(399)) {
		t.Errorf("the next ones: %d, %v", len(next), next)
	}
}
