package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

const (
	disabled = "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage. " +
		"Set archive.url on all brokers first; see docs/tiered-storage.md"
	kept = "It is invalid to disable remote storage without deleting remote data. " +
		"If you want to keep the remote data and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. " +
		"If you want to disable remote storage and delete all remote data, please set " +
		"`remote.storage.enable=false,remote.log.delete.on.disable=true`."
)

// withArchive returns a controller of the same store whose broker has archive.url.
func withArchive(c *Controller) *Controller {
	o := c.opts
	o.HasArchive = true
	return New(o)
}

// A topic gets remote.storage.enable only if there is an object store, and loses it only with its
// records. The first two messages begin as Kafka's.
func TestRemoteStorageIsSwitchedAsInKafka(t *testing.T) {
	ctx := context.Background()
	without, _ := cluster(t, 1)
	with := withArchive(without)
	mustCreate(t, without, "t", 1)
	res := Resource{TopicResource, "t"}
	set := func(kv ...string) (ops []ConfigOp) {
		for i := 0; i < len(kv); i += 2 {
			ops = append(ops, ConfigOp{Name: kv[i], Value: &kv[i+1]})
		}
		return ops
	}
	unset := []ConfigOp{{Name: "remote.storage.enable", Op: Delete}}
	for i, step := range []struct {
		c    *Controller
		ops  []ConfigOp
		want string
	}{
		{without, set("remote.storage.enable", "true"), disabled},
		{without, set("remote.storage.enable", "false"), ""},
		{without, set("local.retention.ms", "5"), ""},
		{with, set("remote.storage.enable", "true"), ""},
		{without, set("retention.ms", "9"), ""}, // it has it already
		{with, set("remote.storage.enable", "false"), kept},
		{with, unset, kept},
		{with, set("cleanup.policy", "compact"),
			"Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."},
		{with, set("remote.storage.enable", "false", "remote.log.delete.on.disable", "true"), ""},
		{with, set("cleanup.policy", "compact"), ""},
	} {
		for _, validate := range []bool{true, false} {
			_, err := step.c.AlterConfigs(ctx, res, step.ops, validate)
			if step.want == "" {
				must.OK(t, err)
			} else {
				wantError(t, err, InvalidConfig, step.want)
			}
			if t.Failed() {
				t.Fatalf("step %d, validate %v", i, validate)
			}
		}
	}
}

func TestInternalTopicsStayOnLocalDisks(t *testing.T) {
	c, _ := cluster(t, 1)
	c = withArchive(c)
	const name = "__consumer_offsets"
	_, err := c.CreateTopic(context.Background(), TopicSpec{Name: name, Partitions: 1, ReplicationFactor: -1})
	must.OK(t, err)
	_, err = c.AlterConfigs(context.Background(), Resource{TopicResource, name},
		[]ConfigOp{{Name: "remote.storage.enable", Value: ptr("true")}}, false)
	wantError(t, err, InvalidConfig, `remote.storage.enable of the internal topic __consumer_offsets can't be changed from "" to "true": `+
		"what the broker has acknowledged in it could be lost. Leave it out, or in a request that replaces all configs "+
		"give it its present value.")
}

// A change is refused unless everything that it relies on is as it was.
func TestAlterTierIsConditional(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	mustCreate(t, c, "t", 1)
	img := image(t, s)
	tp := metadata.TopicPartition{Topic: img.Topic("t").ID}
	record := img.Partition(tp).Revision
	first := metadata.Tier{Start: 5, End: 5}
	alter := func(x metadata.TierChange) (int64, error) {
		x.TopicPartition = tp
		return c.AlterTier(ctx, &x)
	}
	rev, err := alter(metadata.TierChange{Next: &first, Record: record})
	must.OK(t, err)
	if got := image(t, s).Tier(tp); got == nil || got.Start != 5 || got.Revision != rev {
		t.Fatalf("%+v", got)
	}
	for name, x := range map[string]metadata.TierChange{
		"another copy before": {Next: &first, Was: 0, Record: record},
		"another record":      {Next: &first, Was: rev, Record: record + 1},
		"a later collection":  {Next: &first, Was: rev, Record: record, Collection: 7},
		"another removal":     {Was: rev + 1, Record: record},
	} {
		if _, err := alter(x); !errors.Is(err, metadata.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = alter(metadata.TierChange{Was: rev, Record: record, Collection: -1})
	must.OK(t, err)
	if got := image(t, s).Tier(tp); got != nil {
		t.Errorf("%+v remains", got)
	}
}

// The copies of a deleted topic have no name any longer, so that the next collection deletes them.
func TestADeletedTopicHasNoCopies(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	made := mustCreate(t, c, "t", 2)
	img := image(t, s)
	for i := range int32(2) {
		tp := metadata.TopicPartition{Topic: img.Topic("t").ID, Partition: i}
		_, err := c.AlterTier(ctx, &metadata.TierChange{TopicPartition: tp, Next: &metadata.Tier{}, Record: img.Partition(tp).Revision})
		must.OK(t, err)
	}
	_, err := c.DeleteTopic(ctx, made.ID)
	must.OK(t, err)
	for tp := range image(t, s).Tiers() {
		t.Errorf("a copy of %v remains", tp)
	}
}

// Nor has one whose leader copies records for the first time between the read and the deletion.
func TestATopicThatIsCopiedMeanwhileHasNoCopies(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	made := mustCreate(t, c, "t", 1)
	r := &rival{Store: s, times: 1, act: func() {
		_, err := withArchive(c).AlterConfigs(ctx, Resource{TopicResource, "t"},
			[]ConfigOp{{Name: "remote.storage.enable", Value: ptr("true")}}, false)
		must.OK(t, err)
		tp := metadata.TopicPartition{Topic: made.ID}
		record := image(t, s).Partition(tp).Revision
		_, err = c.AlterTier(ctx, &metadata.TierChange{TopicPartition: tp, Next: &metadata.Tier{}, Record: record})
		must.OK(t, err)
	}}
	_, err := over(r).DeleteTopic(ctx, made.ID)
	must.OK(t, err)
	for tp := range image(t, s).Tiers() {
		t.Errorf("a copy of %v remains", tp)
	}
}
