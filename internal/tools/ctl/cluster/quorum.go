package cluster

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/view"
)

// quorum is the metadata quorum of a cluster.
type quorum struct {
	Leader    int32          `json:"leader"` // -1 for a member that is not registered as a broker
	Term      int32          `json:"term"`
	Committed int64          `json:"committed"`
	Members   []quorumMember `json:"members"`
}

// quorumMember is a member of the quorum as its leader sees it.
type quorumMember struct {
	Broker int32   `json:"broker"` // -1 for a member that is not registered as a broker
	Member string  `json:"member"`
	Voter  bool    `json:"voter"`
	Lost   bool    `json:"lost,omitempty"` // the broker lost this directory, and waits for its vote
	Behind int64   `json:"behind"`         // entries that it lacks
	Silent float64 `json:"silentSeconds"`  // since the leader heard from it
}

// withFenced adds the brokers that clients cannot use, and the states of all.
func withFenced(ctx context.Context, cl *kgo.Client, m kadm.Metadata, all []broker) ([]broker, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].State = "active"
	}
	for _, b := range resp.Brokers {
		if !b.IsFenced || slices.ContainsFunc(all, func(x broker) bool { return x.ID == b.NodeID }) {
			continue
		}
		one := broker{ID: b.NodeID, Address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), State: "fenced"}
		if b.Rack != nil {
			one.Rack = *b.Rack
		}
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if slices.Contains(p.Replicas, one.ID) {
					one.Replicas++
				}
			}
		}
		all = append(all, one)
	}
	sorts.Sort(all, func(x, y broker) int { return cmp.Compare(x.ID, y.ID) })
	return all, nil
}

// askQuorum returns the metadata quorum.
func askQuorum(ctx context.Context, cl *kgo.Client) (*quorum, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata",
		Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("the answer describes %d topics of one", len(resp.Topics))
	}
	p := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return nil, err
	}
	return quorumOf(p), nil
}

// quorumOf compares the members with the leader, whose clock and log are the reference.
func quorumOf(p *kmsg.DescribeQuorumResponseTopicPartition) *quorum {
	q := &quorum{Leader: p.LeaderID, Term: p.LeaderEpoch, Committed: p.HighWatermark, Members: []quorumMember{}}
	end, now := p.HighWatermark, int64(-1)
	for _, list := range [][]kmsg.DescribeQuorumResponseTopicPartitionReplicaState{p.CurrentVoters, p.Observers} {
		for _, x := range list {
			end, now = max(end, x.LogEndOffset), max(now, x.LastFetchTimestamp)
		}
	}
	add := func(list []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, voter bool) {
		for _, x := range list {
			m := quorumMember{Broker: x.ReplicaID, Voter: voter, Behind: max(0, end-max(0, x.LogEndOffset)),
				Member: fmt.Sprintf("%016x", binary.BigEndian.Uint64(x.ReplicaDirectoryID[:]))}
			if x.LastFetchTimestamp >= 0 && x.ReplicaID != p.LeaderID {
				m.Silent = (time.Duration(now-x.LastFetchTimestamp) * time.Millisecond).Seconds()
			}
			q.Members = append(q.Members, m)
		}
	}
	add(p.CurrentVoters, true)
	add(p.Observers, false)
	for i := range q.Members {
		m := &q.Members[i]
		m.Lost = m.Voter && m.Broker >= 0 && slices.ContainsFunc(q.Members, func(x quorumMember) bool {
			return x.Broker == m.Broker && !x.Voter && x.Silent < m.Silent
		})
	}
	sorts.SortStable(q.Members, func(x, y quorumMember) int { return cmp.Compare(x.Broker, y.Broker) })
	return q
}

// ofCluster returns the brokers, with their states, and the metadata quorum. If only the quorum is
// unknown, it returns the brokers and an error.
func ofCluster(ctx context.Context, a *app.App, cl *kgo.Client, m kadm.Metadata) ([]broker, *quorum, error) {
	all, err := withFenced(ctx, cl, m, brokers(m))
	if err != nil {
		return nil, nil, err
	}
	var known []view.Broker
	if port := app.AdminPortOf(a); port != nil {
		known, err = port.Brokers(ctx)
		if err != nil && port.Named {
			a.Note("states of brokers: %v", err)
		}
	}
	q, err := askQuorum(ctx, cl)
	noteOld(a, err)
	withStates(all, known, q)
	for _, id := range voters(ctx, cl) {
		if i := slices.IndexFunc(all, func(b broker) bool { return b.ID == id }); i >= 0 {
			all[i].State += ", only votes"
		}
	}
	return all, q, err
}

// noteOld notes that the states of brokers may be old if err, of askQuorum, is that of a broker
// that knows no metadata leader. It is cut off, or the whole cluster has none.
func noteOld(a *app.App, err error) {
	if errors.Is(err, kerr.NotLeaderForPartition) {
		a.Note("note: the broker that answers knows no metadata leader, so the states that it shows may be old; " +
			"chronikctl cluster health shows the cause, and --brokers names another broker")
	}
}

// voters returns the brokers that answer that they have no log directories.
func voters(ctx context.Context, cl *kgo.Client) (ids []int32) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{} // of no partition
	for _, shard := range cl.RequestSharded(ctx, req) {
		if resp, ok := shard.Resp.(*kmsg.DescribeLogDirsResponse); ok && shard.Err == nil && resp.ErrorCode == 0 && len(resp.Dirs) == 0 {
			ids = append(ids, shard.Meta.NodeID)
		}
	}
	return ids
}

// withStates sets what the admin port and the quorum say about brokers. Kafka's protocol has only
// fenced brokers and others. q may be nil.
func withStates(all []broker, known []view.Broker, q *quorum) {
	for i := range all {
		b := &all[i]
		for _, k := range known {
			if k.ID == b.ID && k.State != "active" && k.State != "fenced" { // the port's broker may be behind
				b.State = k.State
			}
		}
		if q != nil && slices.ContainsFunc(q.Members, func(m quorumMember) bool { return m.Lost && m.Broker == b.ID }) {
			b.State += ", lost voter"
		}
	}
}

// tables adds the quorum to the table of brokers. q may be nil.
func (q *quorum) tables(brokers *output.Table) []*output.Table {
	if q == nil {
		return []*output.Table{brokers}
	}
	t := &output.Table{
		Title:   fmt.Sprintf("metadata  leader %d  term %d  %s committed", q.Leader, q.Term, text.Plural(q.Committed, "entry", "entries")),
		Columns: []string{"BROKER#", "ROLE", "BEHIND#", "SILENT#", "+MEMBER"},
	}
	for _, m := range q.Members {
		role := "observer"
		switch {
		case m.Broker == q.Leader:
			role = "leader"
		case m.Lost:
			role = "lost voter"
		case m.Voter:
			role = "voter"
		}
		name := fmt.Sprint(m.Broker)
		if m.Broker < 0 {
			name, role = "?", role+" that no broker has"
		}
		t.Add(name, role, m.Behind, fmt.Sprintf("%.1f s", m.Silent), m.Member)
	}
	return []*output.Table{brokers, t}
}
