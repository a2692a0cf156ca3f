package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// say prints whole lines without buffering.
type say struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func (s *say) line(format string, args ...any) {
	s.mu.Lock()
	fmt.Fprintf(s.out, format+"\n", args...)
	err := s.out.Flush()
	s.mu.Unlock()
	if err != nil { // the reader has gone
		os.Exit(1)
	}
}

// consume is a member that uses franz-go's consumer.
func consume(ctx context.Context) error {
	s := &say{out: bufio.NewWriter(os.Stdout)}
	opts, err := memberOpts(s)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachError(func(topic string, p int32, err error) {
			if !errors.Is(err, context.Canceled) {
				s.line("E %s:%d: %v", topic, p, err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			s.line("R %s %d %d %s", r.Topic, r.Partition, r.Offset, r.Value)
		})
		// With its own time limit: records that were read are committed before the leave.
		done, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		err := cl.CommitRecords(done, fetches.Records()...)
		cancel()
		if err != nil {
			s.line("E commit: %v", err)
		} else {
			fetches.EachPartition(func(p kgo.FetchTopicPartition) {
				if n := len(p.Records); n > 0 {
					s.line("C %s %d %d", p.Topic, p.Partition, p.Records[n-1].Offset+1)
				}
			})
		}
		cl.AllowRebalance()
	}
	return nil
}

func memberOpts(s *say) ([]kgo.Opt, error) {
	session, err := strconv.Atoi(cmp.Or(os.Getenv("SESSION_MS"), "45000"))
	if err != nil {
		return nil, fmt.Errorf("SESSION_MS: %w", err)
	}
	places := func(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
			var list []string
			for topic, partitions := range m {
				for _, p := range partitions {
					list = append(list, place{topic, p}.String())
				}
			}
			s.line("%s %s", kind, strings.Join(list, " "))
		}
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(os.Getenv("BOOTSTRAP"), ",")...), kgo.ClientID(os.Getenv("MEMBER")),
		kgo.ConsumerGroup(os.Getenv("GROUP")),
		kgo.ConsumeTopics(os.Getenv("TOPIC")), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(time.Duration(session) * time.Millisecond),
		kgo.HeartbeatInterval(500 * time.Millisecond), kgo.MetadataMinAge(100 * time.Millisecond), kgo.MetadataMaxAge(time.Second),
		kgo.FetchMaxWait(500 * time.Millisecond), kgo.AlwaysRetryEOF(),
		kgo.OnPartitionsAssigned(places("A")), kgo.OnPartitionsRevoked(places("L")), kgo.OnPartitionsLost(places("L")),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
	}
	if strings.HasPrefix(os.Getenv("TOPIC"), "^") {
		opts = append(opts, kgo.ConsumeRegex())
	}
	if instance := os.Getenv("INSTANCE"); instance != "" {
		opts = append(opts, kgo.InstanceID(instance))
	}
	balancers := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()}
	name := cmp.Or(os.Getenv("ASSIGNOR"), "cooperative-sticky")
	if os.Getenv("PROTOCOL") == "consumer" {
		opts, name = append(opts, kgo.ServerSideBalancer()), cmp.Or(os.Getenv("ASSIGNOR"), "sticky")
	}
	balancer, ok := balancers[name]
	if !ok {
		return nil, fmt.Errorf("ASSIGNOR %q is not known", name)
	}
	return append(opts, kgo.Balancers(balancer)), nil
}
