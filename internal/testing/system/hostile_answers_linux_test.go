package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/hostile"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// raw is a connection that sends one request and returns the response as it is.
func (v *victim) raw() *hostile.Conn {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), hostileTime)
	v.t.Cleanup(cancel)
	c, err := hostile.Dial(ctx, v.Addr)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = c.Close() })
	return c
}

// asked returns the response to a request.
func asked[R kmsg.Response](t *testing.T, c *hostile.Conn, req kmsg.Request) R {
	t.Helper()
	resp, err := c.Ask(req)
	if err != nil {
		t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp.(R)
}

// minFree sets chronik.disk.min.free.bytes while the broker runs.
func (v *victim) minFree(bytes int64) {
	v.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(v.Addr))
	if err != nil {
		v.t.Fatal(err)
	}
	defer cl.Close()
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "chronik.disk.min.free.bytes",
		Value: kadm.StringPtr(strconv.FormatInt(bytes, 10))}}
	if _, err := kadm.NewClient(cl).AlterBrokerConfigs(v.t.Context(), set); err != nil {
		v.t.Fatal(err)
	}
}

// With a full disk every commit is refused separately: the coordinator does not reload, the
// broker's log does not grow with the refusals, and groups can be read meanwhile. When there is
// space, commits work again.
func TestHostileCommitsOnAFullDiskAreRefusedIndividually(t *testing.T) {
	const commits, linesAllowed = 300, 20
	v := startVictim(t) // it has committed offset 1 of partition 0 for the bystanders
	v.minFree(math.MaxInt64 / 4)
	waitFor(t, "the disk is low", func() bool { return strings.Contains(adminText(t, v.process, "/readyz"), "bad: disk of") })
	c := v.raw()
	lines := strings.Count(v.logged(), "\n")
	codes := map[string]int{}
	for range commits {
		resp := asked[*kmsg.OffsetCommitResponse](t, c, hostile.Commit())
		code := resp.Topics[0].Partitions[0].ErrorCode
		codes[fmt.Sprint(kerr.ErrorForCode(code))]++
		if code == 0 {
			t.Fatal("a commit is acknowledged although the disk is full")
		}
		read := kmsg.NewPtrOffsetFetchRequest()
		read.Version, read.Group = 5, hostile.Bystanders
		fetched := asked[*kmsg.OffsetFetchResponse](t, c, read)
		if fetched.ErrorCode != 0 || len(fetched.Topics) != 1 || fetched.Topics[0].Partitions[0].Offset != 1 {
			t.Fatalf("a group's offsets can't be read during refused commits: %+v; refusals: %v", fetched, codes)
		}
	}
	if more := strings.Count(v.logged(), "\n") - lines; more > linesAllowed {
		t.Errorf("%d refused commits (%v) wrote %d log lines", commits, codes, more)
	}
	v.minFree(0)
	waitFor(t, "commits work again", func() bool {
		return asked[*kmsg.OffsetCommitResponse](t, c, hostile.Commit()).Topics[0].Partitions[0].ErrorCode == 0
	})
}

// The timeout of a Produce is about replicas (before KIP-951: "acks=all"). A leader that has stored
// a record acknowledges it.
func TestHostileTimeoutsDoNotDenyStoredRecords(t *testing.T) {
	v := startVictim(t)
	c := v.raw()
	for range 50 {
		req, err := hostile.Produce(1)
		must.OK(t, err)
		req.TimeoutMillis = 0
		if code := asked[*kmsg.ProduceResponse](t, c, req).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatalf("acks=1 with a timeout of 0: %v for a record that is stored", kerr.ErrorForCode(code))
		}
	}
}

// Clients must not create the groups' topic with their own settings, nor weaken it.
func TestHostileClientsDoNotOwnTheGroupsTopic(t *testing.T) {
	const groupsTopic = "__consumer_offsets"
	weak := map[string]string{"cleanup.policy": "delete", "chronik.durability.profile": "os", "retention.ms": "1000"}
	p, err := start(t.TempDir(), nil, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = p.end(9) })
	v := &victim{process: p, t: t}
	c := v.raw()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 5, 30_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = groupsTopic, 1, 1
	for name, value := range weak {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
	}
	create.Topics = append(create.Topics, topic)
	if code := asked[*kmsg.CreateTopicsResponse](t, c, create).Topics[0].ErrorCode; code == 0 {
		t.Errorf("a client created %s with its own settings", groupsTopic)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	must.OK(t, hostile.Prepare(ctx, p.Addr))
	for _, name := range []string{"cleanup.policy", "chronik.durability.profile"} {
		value := weak[name]
		alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
		alter.Version = 1
		alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic,
			ResourceName: groupsTopic,
			Configs:      []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}}}}
		if r := asked[*kmsg.IncrementalAlterConfigsResponse](t, c, alter).Resources[0]; r.ErrorCode == 0 {
			t.Errorf("a client set %s of %s to %s", name, groupsTopic, value)
		}
	}
}

// Connections use up the descriptors while topics are created. A response without an error means
// that the topic can be used. After an error, it can be created or used when descriptors are free
// again, without a restart.
func TestHostileConnectionsDoNotBreakTopicsPermanently(t *testing.T) {
	const files, connections, partitions = 300, 400, 4
	few := filepath.Join(t.TempDir(), "few")
	program := fmt.Sprintf("#!/bin/sh\nulimit -n %d && exec %s \"$@\"\n", files, cmp.Or(os.Getenv("CHRONIKD"), "chronikd"))
	if err := os.WriteFile(few, []byte(program), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	t.Setenv("CHRONIKD", few)
	v := startVictim(t)
	c := v.raw() // before the other connections
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 5, 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "crowded", partitions, 1
	create.Topics = append(create.Topics, topic)
	made := func() error {
		err := kerr.ErrorForCode(asked[*kmsg.CreateTopicsResponse](t, c, create).Topics[0].ErrorCode)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return nil
		}
		return err
	}
	m := &hostile.Attacker{Addr: v.Addr, Part: 100}
	defer m.Close()
	crowd, enough := context.WithTimeout(t.Context(), time.Second)
	defer enough()
	must.OK(t, m.Idle(crowd, connections))
	first := made()
	t.Logf("with %d descriptors and %d connections: %v", files, connections, first)
	m.Close()
	if first != nil {
		waitFor(t, "the topic is created when descriptors are free", func() bool { return made() == nil })
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(v.Addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50*time.Millisecond))
	must.OK(t, err)
	defer cl.Close()
	healed, cancel := context.WithTimeout(t.Context(), hostileTime)
	defer cancel()
	for p := range int32(partitions) {
		if err := cl.ProduceSync(healed, &kgo.Record{Topic: "crowded", Partition: p, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatalf("partition %d, with descriptors free: %v", p, err)
		}
	}
}
