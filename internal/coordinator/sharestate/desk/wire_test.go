package desk

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/testing/golden"
)

// someItems are items of every op, and someResults what they return.
func someItems() (items []*request, results []response) {
	k := format.Key{Group: "g", Topic: [16]byte{1, 15: 2}, Partition: 3}
	other := format.Key{Group: strings.Repeat("h", 300), Topic: [16]byte{4}, Partition: math.MaxInt32}
	id := sharestate.Identity{StateEpoch: 5, Created: 1_700_000_000_000}
	marks := []window.Mark{{First: 100, Last: 100, State: window.Acknowledged, Count: 1}, {First: 101, Last: 105, Count: 300},
		{First: math.MaxInt64 - 1, Last: math.MaxInt64 - 1, State: window.Archived, Count: math.MaxInt16}}
	var of epochs.Cache
	of.Assign(3, 10)
	of.Assign(math.MaxInt32, math.MaxInt64)
	items = []*request{
		{op: opInitialize, key: k, id: sharestate.Identity{StateEpoch: 5}, start: -1, coordinator: 9},
		{op: opDelete, key: other, coordinator: math.MaxInt32},
		{op: opSummarize, key: k},
		{op: opPeek, key: other},
		{op: opPeek, key: k},
		{op: opOpen, key: k, id: id, recorded: -1, leader: 6, cut: -1, start: 17, epochs: of},
		{op: opWrite, key: other, id: id, leader: 6, start: 99, complete: 7, marks: marks},
		{op: opChanged, key: k, id: id, leader: -1},
		{op: opInspect, key: k},
		{op: opInspect, key: other},
		{op: opLook, key: k, body: []byte("look")},
		{op: opOperate, key: other, body: []byte("change")},
	}
	results = []response{
		{}, {err: kerr.FencedStateEpoch}, {id: sharestate.Identity{StateEpoch: 5}, leader: -1, start: -1, complete: 8},
		{err: kerr.RequestTimedOut}, {id: id, leader: 6, started: true, epochs: of}, {start: 99, marks: marks}, {}, {},
		{led: sharestate.Led{LogStart: 9, High: 100, Loaded: true, Start: 10, End: 30, Acquired: 5, Available: 4, Archiving: 3, Finished: 2,
			Counts: window.Counts{Delivered: 50, Redelivered: 6, Acknowledged: [5]int64{1, 2, 3, 4, 5}, Ended: 7, Exhausted: 8}}},
		{err: kerr.NotLeaderForPartition}, {body: []byte("seen")}, {body: []byte("done")},
	}
	return items, results
}

func TestCallsAreDecodedAsTheyWereEncoded(t *testing.T) {
	items, results := someItems()
	got, err := decodeCall(encodeCall(wireVersion, items))
	if err != nil || len(got) != len(items) {
		t.Fatal(len(got), err)
	}
	for i := range got {
		if !reflect.DeepEqual(&got[i], items[i]) {
			t.Errorf("%+v, want %+v", got[i], *items[i])
		}
	}
	former, err := decodeCall(encodeCall(formerVersion, items))
	if err != nil || len(former) != len(items) {
		t.Fatal(len(former), err)
	}
	for i := range former {
		if got[i].op == opInitialize || got[i].op == opDelete {
			got[i].coordinator = sharestate.AnyCoordinator // it has no field for that
		}
		if !reflect.DeepEqual(former[i], got[i]) {
			t.Errorf("version %d: %+v, want %+v", formerVersion, former[i], got[i])
		}
	}
	if list, err := decodeAnswer(encodeAnswer(got, results), items); err != nil || !reflect.DeepEqual(list, results) {
		t.Errorf("%+v, %v, want %+v", list, err, results)
	}
}

// Exact bytes of a call and an answer, so that no change of the format goes unnoticed.
func TestFormatIsFixed(t *testing.T) {
	items, results := someItems()
	decoded, err := decodeCall(encodeCall(wireVersion, items))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("call %x\n\nformer call %x\n\nanswer %x\n", encodeCall(wireVersion, items), encodeCall(formerVersion, items),
		encodeAnswer(decoded, results))
	golden.File(t, "testdata/calls.hex", got, "go test ./internal/coordinator/sharestate/desk -run FormatIsFixed")
}

// A message that is cut, of another version, or with more than it may have, is refused.
func TestMalformedMessagesAreRefused(t *testing.T) {
	items, results := someItems()
	call := encodeCall(wireVersion, items)
	decoded, _ := decodeCall(call)
	answer := encodeAnswer(decoded, results)
	for n := range call {
		if _, err := decodeCall(call[:n]); !errors.Is(err, errWire) {
			t.Errorf("%d bytes of a call: %v", n, err)
		}
	}
	for n := range answer {
		if _, err := decodeAnswer(answer[:n], items); !errors.Is(err, errWire) {
			t.Errorf("%d bytes of an answer: %v", n, err)
		}
	}
	newer := bytes.Clone(call)
	newer[0]++
	if _, err := decodeCall(newer); !errors.Is(err, errWire) || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("a newer version: %v", err)
	}
	many := make([]*request, maxCall+1)
	for i := range many {
		many[i] = &request{op: opPeek}
	}
	if _, err := decodeCall(encodeCall(wireVersion, many)); !errors.Is(err, errWire) {
		t.Errorf("too many items: %v", err)
	}
	if _, err := decodeCall(encodeCall(wireVersion, []*request{{op: 99}})); !errors.Is(err, errWire) {
		t.Errorf("an unknown op: %v", err)
	}
}

// No bytes make a decoder panic, or take memory that is out of proportion to them.
func FuzzCall(f *testing.F) {
	items, results := someItems()
	call := encodeCall(wireVersion, items)
	decoded, _ := decodeCall(call)
	f.Add(call)
	f.Add(encodeAnswer(decoded, results))
	f.Fuzz(func(_ *testing.T, p []byte) {
		_, _ = decodeCall(p)
		_, _ = decodeAnswer(p, items)
	})
}
