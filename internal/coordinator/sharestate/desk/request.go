package desk

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// op is what an item asks for. The numbers are those of calls between brokers.
type op uint8

const (
	opInitialize op = 1
	opDelete     op = 2
	opSummarize  op = 3
	opPeek       op = 4
	opOpen       op = 5
	opWrite      op = 6
	opChanged    op = 7 // a notification of the leader; it has no result
	opInspect    op = 8 // for the leader of the data partition
	opLook       op = 9 // the same, for an operator
	opOperate    op = 10
)

// ofLeader reports whether the leader of the data partition has the item, and not the coordinator.
func (o op) ofLeader() bool { return o == opInspect || o == opLook || o == opOperate }

// request is an item: a request about one share partition. Which fields have a meaning depends on
// op.
type request struct {
	op  op
	key format.Key
	at  int32 // the partition of the topic that has the key; see Desk.locate
	// id is the identity of the state; of an Initialize, its StateEpoch.
	id               sharestate.Identity
	recorded, leader int32
	coordinator      int32 // of an Initialize or a Delete
	cut              int64
	start, complete  int64
	marks            []window.Mark
	epochs           epochs.Cache
	body             []byte
}

// response is the result of an item.
type response struct {
	err             *kerr.Error
	id              sharestate.Identity
	leader          int32
	started         bool
	start, complete int64
	marks           []window.Mark
	epochs          epochs.Cache
	led             sharestate.Led
	body            []byte
}

func ofInitialize(x sharestate.Initializing) request {
	return request{op: opInitialize, key: x.Key, id: sharestate.Identity{StateEpoch: x.StateEpoch}, start: x.Start,
		coordinator: x.Coordinator}
}

func ofDelete(x sharestate.Deleting) request {
	return request{op: opDelete, key: x.Key, coordinator: x.Coordinator}
}

func ofOpen(x sharestate.Opening) request {
	return request{op: opOpen, key: x.Key, id: x.ID, recorded: x.Recorded, leader: x.Leader, cut: x.Cut, start: x.Start,
		epochs: x.Epochs}
}

func ofWrite(x sharestate.Writing) request {
	return request{op: opWrite, key: x.Key, id: x.ID, leader: x.Leader, start: x.Start, complete: x.Complete, marks: x.Marks}
}

func ofOperating(o op) func(sharestate.Operating) request {
	return func(x sharestate.Operating) request { return request{op: o, key: x.Key, body: x.Body} }
}

// about returns a function that makes requests that have only a key.
func about(o op) func(format.Key) request {
	return func(k format.Key) request { return request{op: o, key: k} }
}

func (r *response) result() *kerr.Error { return r.err }

func (r *response) peeked() sharestate.Peeked {
	if r.err != nil {
		return sharestate.Peeked{Err: r.err, Leader: -1}
	}
	return sharestate.Peeked{ID: r.id, Leader: r.leader, Started: r.started, Epochs: r.epochs}
}

func (r *response) opened() sharestate.Opened {
	if r.err != nil {
		return sharestate.Opened{Err: r.err}
	}
	return sharestate.Opened{Stored: window.Stored{Start: r.start, Marks: r.marks}}
}

func (r *response) summary() sharestate.Summary {
	if r.err != nil {
		return sharestate.Summary{Err: r.err, Leader: -1, Start: -1}
	}
	return sharestate.Summary{StateEpoch: r.id.StateEpoch, Leader: r.leader, Start: r.start, Complete: int32(r.complete)}
}

func (r *response) inspected() sharestate.Led {
	if r.err != nil {
		return sharestate.Led{Err: r.err}
	}
	return r.led
}

func (r *response) operated() sharestate.Operated {
	return sharestate.Operated{Err: r.err, Body: r.body}
}

// eventOf returns the event of a shard for items of one op.
func eventOf(o op, list []*request) any {
	keys := func() []format.Key { return mapped(list, func(q *request) format.Key { return q.key }) }
	switch o {
	case opInitialize:
		return sharestate.Initialize(mapped(list, func(q *request) sharestate.Initializing {
			return sharestate.Initializing{Key: q.key, StateEpoch: q.id.StateEpoch, Start: q.start, Coordinator: q.coordinator}
		}))
	case opDelete:
		return sharestate.Delete(mapped(list, func(q *request) sharestate.Deleting {
			return sharestate.Deleting{Key: q.key, Coordinator: q.coordinator}
		}))
	case opSummarize:
		return sharestate.Summarize(keys())
	case opPeek:
		return sharestate.Peek(keys())
	case opOpen:
		return sharestate.Open(mapped(list, func(q *request) sharestate.Opening {
			return sharestate.Opening{Key: q.key, ID: q.id, Recorded: q.recorded, Leader: q.leader, Cut: q.cut, Start: q.start,
				Epochs: q.epochs}
		}))
	default:
		return sharestate.Write(mapped(list, func(q *request) sharestate.Writing {
			return sharestate.Writing{Key: q.key, ID: q.id, Leader: q.leader, Start: q.start, Complete: q.complete, Marks: q.marks}
		}))
	}
}

// responsesOf returns the results in a shard's answer; none if it is of an unknown type.
func responsesOf(answer any) []response {
	switch list := answer.(type) {
	case []*kerr.Error:
		return mapped(list, func(err *kerr.Error) response { return response{err: err} })
	case []sharestate.Peeked:
		return mapped(list, func(p sharestate.Peeked) response {
			return response{err: p.Err, id: p.ID, leader: p.Leader, started: p.Started, epochs: p.Epochs}
		})
	case []sharestate.Opened:
		return mapped(list, func(o sharestate.Opened) response {
			return response{err: o.Err, start: o.Stored.Start, marks: o.Stored.Marks}
		})
	case []sharestate.Summary:
		return mapped(list, func(s sharestate.Summary) response {
			return response{err: s.Err, id: sharestate.Identity{StateEpoch: s.StateEpoch}, leader: s.Leader, start: s.Start,
				complete: int64(s.Complete)}
		})
	}
	return nil
}

func mapped[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}
