package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type profiles struct{}

func (profiles) Lookup(name string) (durability.Profile, error) {
	if name != "sync" {
		return durability.Profile{}, errors.New("unknown profile (known: sync)")
	}
	return durability.Profile{Name: name}, nil
}

// cluster returns a store with a controller and registered brokers.
func cluster(t testing.TB, brokers ...int32) (*Controller, metadata.Store) {
	t.Helper()
	s := solestore.Open(t, raftstore.Options{FS: vfs.Memory(), Dir: "/m", Log: zap.NewNop()})
	t.Cleanup(func() { _ = s.Close() })
	c := over(s)
	for _, b := range brokers {
		if _, _, err := solestore.Register(context.Background(), s, b, ""); err != nil {
			t.Fatal(err)
		}
	}
	return c, s
}

// over returns a controller that uses this store.
func over(s metadata.Store) *Controller {
	return New(Options{Store: s, NumPartitions: 2, ReplicationFactor: 1,
		Configs: configdef.New(configdef.Options{Profiles: profiles{}, ProduceProfiles: []string{"balanced"}})})
}

// image returns the store's content as brokers see it.
func image(t testing.TB, s metadata.Store) *metadata.Image {
	t.Helper()
	kvs, rev, err := s.Range(context.Background(), "")
	must.OK(t, err)
	m, err := metadata.Load(kvs, rev)
	must.OK(t, err)
	return m
}

// wantError checks kind and text of an error; an empty text means no error.
func wantError(t testing.TB, err error, kind Kind, msg string) {
	t.Helper()
	var e *Error
	is := errors.As(err, &e)
	switch {
	case kind == 0 && err != nil:
		t.Errorf("error %v, want none", err)
	case kind != 0 && !is:
		t.Errorf("error %v, want one of kind %d: %s", err, kind, msg)
	case kind != 0 && (e.Kind != kind || e.Msg != msg):
		t.Errorf("error %s of kind %d\nwant  %s of kind %d", e.Msg, e.Kind, msg, kind)
	}
}

func mustCreate(t testing.TB, c *Controller, name string, partitions int32) Created {
	t.Helper()
	made, err := c.CreateTopic(context.Background(), TopicSpec{Name: name, Partitions: partitions, ReplicationFactor: -1})
	must.OK(t, err)
	return made
}

// rival is a store with another writer, which writes between the reads and the Txn of the operation
// under test, a given number of times.
type rival struct {
	metadata.Store
	act   func()
	times int
}

func (r *rival) Txn(ctx context.Context, txn metadata.Txn) (int64, error) {
	if r.times > 0 {
		r.times--
		r.act()
	}
	return r.Store.Txn(ctx, txn)
}

func TestOperationIsRetriedAfterAConflict(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	mustCreate(t, c, "x", 1)
	set := func(v string) []ConfigOp { return []ConfigOp{{Name: "segment.bytes", Value: &v}} }
	res := Resource{TopicResource, "x"}
	n := 0
	r := &rival{Store: s, times: 3, act: func() {
		n++
		v := fmt.Sprint(n)
		if _, err := c.AlterConfigs(ctx, res, []ConfigOp{{Name: "segment.ms", Value: &v}}, false); err != nil {
			t.Error(err)
		}
	}}
	if _, err := over(r).AlterConfigs(ctx, res, set("2000000"), false); err != nil {
		t.Fatal(err)
	}
	configs := image(t, s).Topic("x").Configs
	if configs["segment.ms"] != "3" || configs["segment.bytes"] != "2000000" {
		t.Errorf("a writer's change was lost: %v", configs)
	}
	r.times = 1 << 30
	if _, err := over(r).AlterConfigs(ctx, res, set("3000000"), false); !errors.Is(err, metadata.ErrConflict) {
		t.Errorf("an operation that always conflicts: %v", err)
	}
}

// A config of a topic that is deleted meanwhile is refused, and leaves nothing.
func TestConfigsAreNotSetOnADeletedTopic(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	made := mustCreate(t, c, "x", 1)
	r := &rival{Store: s, times: 1, act: func() {
		if _, err := c.DeleteTopic(ctx, made.ID); err != nil {
			t.Error(err)
		}
	}}
	_, err := over(r).AlterConfigs(ctx, Resource{TopicResource, "x"}, []ConfigOp{{Name: "segment.ms", Value: ptr("5")}}, false)
	wantError(t, err, UnknownTopic, "The topic 'x' does not exist.")
	if kvs, _, err := s.Range(ctx, metadata.TopicConfigPrefix); len(kvs) != 0 || err != nil {
		t.Errorf("configs of a deleted topic: %v, %v", kvs, err)
	}
}

func TestStoreErrorsAreNotRefusals(t *testing.T) {
	c, s := cluster(t, 1)
	must.OK(t, s.Close())
	_, err := c.CreateTopic(context.Background(), TopicSpec{Name: "x", Partitions: 1, ReplicationFactor: 1})
	var refused *Error
	if !errors.Is(err, metadata.ErrClosed) || errors.As(err, &refused) || !strings.Contains(err.Error(), "create topic x") {
		t.Errorf("%v", err)
	}
}

// Metadata that do not name the next producer id give none: they may be older than those that gave
// the first.
func TestNoProducerIDWithoutTheirRecord(t *testing.T) {
	c, s := cluster(t, 1)
	if _, err := s.Txn(t.Context(), metadata.Txn{Delete: []string{metadata.ProducerIDsKey}}); err != nil {
		t.Fatal(err)
	}
	if first, count, err := c.ProducerIDBlock(t.Context()); err == nil {
		t.Errorf("%d ids from %d on", count, first)
	}
}

func TestProducerIDsAreNeverReused(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	seen := map[int64]bool{}
	blocks := make(chan int64)
	for range 8 {
		go func() {
			for range 4 {
				first, count, err := c.ProducerIDBlock(ctx)
				if err != nil || count != ProducerIDBlockSize {
					t.Error(count, err)
				}
				blocks <- first
			}
		}()
	}
	for range 32 {
		first := <-blocks
		if seen[first] || first%ProducerIDBlockSize != 0 || first >= 32*ProducerIDBlockSize {
			t.Errorf("block %d was given before, is not aligned, or is too high", first)
		}
		seen[first] = true
	}
	if first, _, err := over(s).ProducerIDBlock(ctx); first != 32*ProducerIDBlockSize || err != nil {
		t.Errorf("another controller gets %d, %v", first, err)
	}
}
