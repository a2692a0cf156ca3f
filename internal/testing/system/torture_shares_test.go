package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	judge "github.com/chronik-io/chronik/internal/testing/check"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/shareload"
)

const (
	jobsTopic      = "jobs"
	jobsLetters    = "dlq.jobs"
	jobsPartitions = 3
	jobsRate       = 20 * time.Millisecond // between two records
)

// jobs is the load of share groups: a producer, and two groups that work through what it writes.
type jobs struct {
	c       *torture
	admin   *kadm.Client
	copies  *kgo.Client // reads the topic of dead letters from its start on
	groups  []*shareload.Group
	writer  sync.WaitGroup
	workers sync.WaitGroup
	stop    func() // the producer
	end     func() // the members

	mu    sync.Mutex
	acked [jobsPartitions][]judge.Record // not forgotten, in the order of their answers
	read  [2]int64                       // copies, by partition of their topic
}

// startJobs creates the topics and the groups, and starts the clients.
func (c *torture) startJobs(ctx context.Context, seed uint64) {
	j := &jobs{c: c}
	t := c.t // each round has another one
	cl, err := c.client(kgo.AlwaysRetryEOF())
	must.OK(t, err)
	t.Cleanup(cl.Close)
	j.admin = kadm.NewClient(cl)
	c.eventually("create the topics of share groups", func(ctx context.Context) string {
		for topic, configs := range map[string]map[string]*string{jobsTopic: {"segment.ms": kadm.StringPtr("10000")},
			jobsLetters: {"errors.deadletterqueue.group.enable": kadm.StringPtr("true")}} {
			partitions := int32(jobsPartitions)
			if topic == jobsLetters {
				partitions = int32(len(j.read))
			}
			_, err := j.admin.CreateTopic(ctx, partitions, int16(c.holders), configs, topic)
			if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
				return err.Error()
			}
		}
		return ""
	})
	for i, g := range []*shareload.Group{{Name: "working"}, {Name: "rejecting", Letters: jobsLetters}} {
		g.Topics, g.Seed, g.Lock, g.Life = []string{jobsTopic}, seed<<8+uint64(i), 5*time.Second, 30*time.Second
		g.Client = func() (*kgo.Client, error) { return c.client() }
		g.Judges = map[shareload.Partition]*judge.Share{}
		for p := range int32(jobsPartitions) {
			g.Judges[shareload.Partition{Topic: jobsTopic, Index: p}] = &judge.Share{Limit: shareload.Limit, Letters: g.Letters != ""}
		}
		c.eventually("configure a share group", func(ctx context.Context) string {
			if err := g.Configure(ctx, cl); err != nil {
				return err.Error()
			}
			return ""
		})
		j.groups = append(j.groups, g)
	}
	j.copies, err = c.client(kgo.AlwaysRetryEOF(), kgo.ConsumeTopics(jobsLetters), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond))
	must.OK(t, err)
	t.Cleanup(j.copies.Close)
	var producing, working context.Context
	producing, j.stop = context.WithCancel(ctx)
	working, j.end = context.WithCancel(ctx)
	j.writer.Go(func() { j.produce(producing, t) })
	for _, g := range j.groups {
		for i := range uint64(3) {
			j.workers.Go(func() { g.Work(working, i) })
		}
	}
	c.jobs = j
}

// produce writes numbered records until ctx ends, and waits for their acknowledgements.
func (j *jobs) produce(ctx context.Context, t *testing.T) {
	cl, err := j.c.client(kgo.AlwaysRetryEOF(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.DefaultProduceTopic(jobsTopic))
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	for n := 0; ctx.Err() == nil; n++ {
		r := &kgo.Record{Partition: int32(n % jobsPartitions), Value: fmt.Append(nil, "job-", n)}
		cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			if err != nil {
				j.c.fail("produce %s: %v", r.Value, err)
				return
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			j.acked[r.Partition] = append(j.acked[r.Partition], judge.Record{Offset: r.Offset, Epoch: -1, Value: string(r.Value)})
		})
		pause(ctx, jobsRate)
	}
	end, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	if err := cl.Flush(end); err != nil {
		j.c.fail("the producer of share groups: flush: %v", err)
	}
}

// counts returns how many acknowledgements of each group were answered.
func (j *jobs) counts() (list []int) {
	if j == nil {
		return nil
	}
	for _, g := range j.groups {
		_, answered := g.Count()
		list = append(list, answered)
	}
	return list
}

// more returns which group has no more answered acknowledgements than it had, "" for none.
func (j *jobs) more(had []int) string {
	for i, n := range j.counts() {
		if n < had[i]+10 {
			return fmt.Sprintf("share group %s: %d acknowledgements were answered, and no more", j.groups[i].Name, n)
		}
	}
	return ""
}

// readCopies tells the judges of all dead letters that there are.
func (j *jobs) readCopies() {
	var ends kadm.ListedOffsets
	j.c.eventually("the end of "+jobsLetters, func(ctx context.Context) string {
		var err error
		if ends, err = j.admin.ListEndOffsets(ctx, jobsLetters); err == nil {
			err = ends.Error()
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	j.c.eventually("dead letters", func(ctx context.Context) string {
		for p := range j.read {
			end, _ := ends.Lookup(jobsLetters, int32(p))
			for j.read[p] < end.Offset { // no pause between two polls
				fetched := j.copies.PollFetches(ctx)
				for _, r := range fetched.Records() {
					if r.Offset != j.read[r.Partition] {
						j.c.fail("%s-%d: offset %d follows %d", jobsLetters, r.Partition, r.Offset, j.read[r.Partition]-1)
					}
					j.read[r.Partition] = r.Offset + 1
					if err := j.groups[1].Copied(r); err != nil {
						j.c.fail("%s: %v", jobsLetters, err)
					}
				}
				if err := fetched.Err(); err != nil {
					return fmt.Sprintf("%d of partition %d are read, up to %d: %v", j.read[p], p, end.Offset, err)
				}
			}
		}
		return ""
	})
}

// starts returns the start offsets of all groups, when none is unfinished if finish is set.
func (j *jobs) starts(finish bool) (all []map[shareload.Partition]int64) {
	for _, g := range j.groups {
		j.c.eventually("the offsets of share group "+g.Name, func(ctx context.Context) string {
			starts, why := g.Unfinished(ctx, j.admin)
			if len(starts) < len(g.Judges) || finish && why != "" {
				return why
			}
			all = append(all, starts)
			return ""
		})
	}
	return all
}

// forget judges what both groups have finished, forgets it, and deletes its records.
func (j *jobs) forget() {
	if j == nil {
		return
	}
	starts := j.starts(false)
	j.readCopies()
	below := kadm.Offsets{}
	j.mu.Lock()
	for p := range j.acked {
		at := shareload.Partition{Topic: jobsTopic, Index: int32(p)}
		end := min(starts[0][at], starts[1][at])
		for _, g := range j.groups {
			g.Judges[at].Forget(end, j.acked[p])
		}
		j.acked[p] = slices.DeleteFunc(j.acked[p], func(r judge.Record) bool { return r.Offset < end })
		below.AddOffset(jobsTopic, int32(p), end, -1)
	}
	j.mu.Unlock()
	within, cancel := context.WithTimeout(j.c.t.Context(), startTime)
	defer cancel()
	if _, err := j.admin.DeleteRecords(within, below); err != nil {
		j.c.t.Logf("delete records of %s: %v", jobsTopic, err) // the next call deletes them
	}
}

// judge lets the groups finish, ends the clients, and judges what they saw.
func (j *jobs) judge() {
	if j == nil {
		return
	}
	j.stop()
	j.writer.Wait()
	for _, g := range j.groups {
		g.Finish()
	}
	starts := j.starts(true)
	j.end()
	j.workers.Wait()
	j.readCopies()
	for i, g := range j.groups {
		for p, of := range g.Judges {
			for _, problem := range of.Problems(j.acked[p.Index], starts[i][p]) {
				j.c.fail("share group %s, partition %d: %s", g.Name, p.Index, problem)
			}
		}
		delivered, answered := g.Count()
		j.c.t.Logf("share group %s: %d deliveries, %d answered acknowledgements, %d dead letters", g.Name, delivered, answered,
			j.read[0]+j.read[1])
	}
}
