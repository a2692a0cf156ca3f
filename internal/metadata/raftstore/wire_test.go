package raftstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// No message that no member sends reaches the library, whatever its sender means with it: the
// library would panic, or append or wait for what it contains.
func TestMessagesThatNoMemberSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stores := voters(t, 3, nil)
		defer c.close(t)
		leader, others := ready(t, stores...)
		message := func(s *Store, from uint64, kind pb.MessageType, edit func(*pb.Message)) []byte {
			role, _ := leader.Leadership()
			m := &pb.Message{Type: kind.Enum(), From: new(from), To: new(s.Member()), Term: new(role.Term)}
			if edit != nil {
				edit(m)
			}
			return append(newHeader([16]byte{7}, from, s.Member()), marshal(m)...)
		}
		entry := func(kind pb.EntryType) func(*pb.Message) {
			return func(m *pb.Message) {
				m.Term = nil
				m.Entries = []*pb.Entry{{Type: kind.Enum(), Data: []byte("x")}}
			}
		}
		context3 := func(m *pb.Message) { m.Context = []byte{1, 2, 3} }
		noTerm := func(m *pb.Message) { m.Term = nil }
		for name, send := range map[string]struct {
			kind pb.MessageType
			edit func(*pb.Message)
		}{
			"a question without content":     {pb.MsgReadIndex, noTerm},
			"a question":                     {pb.MsgReadIndex, entry(pb.EntryNormal)},
			"a proposal without content":     {pb.MsgProp, noTerm},
			"a proposal":                     {pb.MsgProp, entry(pb.EntryNormal)},
			"a change of members":            {pb.MsgProp, entry(pb.EntryConfChange)},
			"a change of members, version 2": {pb.MsgProp, entry(pb.EntryConfChangeV2)},
			"an answer with a short context": {pb.MsgHeartbeatResp, context3},
			"a vote with a short context":    {pb.MsgVoteResp, context3},
			"an answer without a term":       {pb.MsgAppResp, noTerm},
			"an answer beyond the log":       {pb.MsgAppResp, func(m *pb.Message) { m.Index = new(uint64(1 << 40)) }},
			"a refusal beyond the log": {pb.MsgAppResp, func(m *pb.Message) {
				m.Reject, m.RejectHint = new(true), new(uint64(1<<63+1))
			}},
			"a heartbeat without a term":       {pb.MsgHeartbeat, noTerm},
			"entries without a term":           {pb.MsgApp, noTerm},
			"a vote without a term":            {pb.MsgVoteResp, noTerm},
			"a request to vote without a term": {pb.MsgVote, noTerm},
			"an answer to a question":          {pb.MsgReadIndexResp, entry(pb.EntryNormal)},
			"a message of an unknown type":     {pb.MessageType(99), nil},
		} {
			for _, s := range stores {
				from := others[0].Member()
				if s == others[0] {
					from = leader.Member()
				}
				_ = s.Receive(from, message(s, from, send.kind, send.edit))
				synctest.Wait()
				select {
				case <-s.ended:
					t.Fatalf("%s ends a member: %v", name, s.err)
				default:
				}
			}
		}
		time.Sleep(5 * time.Second)
		leader, _ = ready(t, stores...)
		if _, err := leader.Txn(context.Background(), put("/b", "1")); err != nil {
			t.Error(err)
		}
	})
}
