package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/view"
)

// taggedValues are what chronikctl and the broker send each other in tagged fields, with a value in
// every field.
func taggedValues() map[uint32][]any {
	return map[uint32][]any{
		view.ShareTag: {
			view.ShareAsk{Topic: "jobs", Partition: 1, First: 2, Last: 3, Action: view.ReleaseRecords, Limit: 4, States: []string{"acquired"}},
			view.ShareRecords{Start: 1, End: 2, HighWatermark: 3, Records: []view.ShareRecord{{Offset: 4, State: "acquired", Deliveries: 5,
				Member: "member", LeftMs: 6, Key: []byte("key"), KeyBytes: 7, Value: []byte("value"), ValueBytes: 8, Timestamp: 9,
				Missing: true}}, Next: 10, Note: "why"},
			view.ShareChange{Changed: 1, Available: 2, Finished: 3, Below: 4, Beyond: 5},
		},
		view.SnapshotTag: {
			view.SnapshotAsk{Action: view.VerifySnapshot, Number: 1, AllowOffline: true},
			view.SnapshotAnswer{ID: 1, Term: 2, Error: "why"},
			view.SnapshotList{Snapshots: []view.Snapshot{{Number: 1, TimeMs: 2, EndedMs: 3, Partitions: 4, Offline: 5, Bytes: 6,
				UploadedBytes: 7, VerifiedMs: 8, Note: "that", Damage: "what"}}, Error: "why", Service: &view.Snapshots{URL: "s3://bucket",
				IntervalMs: 1, Term: 2, Running: &view.RunningSnapshot{Number: 3, SinceMs: 4, UploadedBytes: 5, TotalBytes: 6},
				Failures: 7, LastError: "what", LastFailureMs: 8, Asked: 9,
				Outcomes: []view.SnapshotOutcome{{ID: 10, Number: 11, Error: "which", Offline: true}}}},
		},
	}
}

// Exact texts of the requests and answers in tagged fields, full and empty, so that no change of
// the format goes unnoticed. What the decoders accept has all fields.
func TestFormatIsFixed(t *testing.T) {
	var b strings.Builder
	values := taggedValues()
	for _, tag := range []uint32{view.ShareTag, view.SnapshotTag} {
		for _, v := range values[tag] {
			if empty := emptyField(reflect.ValueOf(v), fmt.Sprintf("%T", v)); empty != "" {
				t.Errorf("%s has no value: give it one in taggedValues", empty)
			}
			fmt.Fprintf(&b, "field %d, %T %s\nempty %s\n\n", tag, v, encoded(v), encoded(reflect.Zero(reflect.TypeOf(v)).Interface()))
		}
	}
	golden.File(t, "testdata/tagged.json", strings.TrimSuffix(b.String(), "\n"), "go test ./internal/broker -run FormatIsFixed")
	share := values[view.ShareTag][0]
	if got, err := decodeAsk(encoded(share), true); err != nil || !reflect.DeepEqual(got, share) {
		t.Errorf("%+v became %+v, %v", share, got, err)
	}
	var snapshot view.SnapshotAsk
	want := values[view.SnapshotTag][0]
	if err := decodeTagged(encoded(want), maxSnapshotAsk, &snapshot); err != nil || snapshot != want {
		t.Errorf("%+v became %+v, %v", want, snapshot, err)
	}
}

// emptyField returns the name of a field that is zero, or of an empty list, empty if there is none.
func emptyField(v reflect.Value, name string) string {
	if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return name
	}
	switch v.Kind() {
	case reflect.Pointer:
		return emptyField(v.Elem(), name)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			return emptyField(v.Index(0), name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if empty := emptyField(v.Field(i), name+"."+v.Type().Field(i).Name); empty != "" {
				return empty
			}
		}
	}
	return ""
}

// A field of a later version and text behind the request are refused: what they ask for would not
// be done.
func TestTaggedFieldsAreDecodedStrictly(t *testing.T) {
	share, snapshot := `{"topic":"t","first":0,"limit":1`, `{"action":"create"`
	for _, end := range []string{`}`, `} `, `,"later":1}`, `} {}`, `}}`, `}]`, `},`, `} x`} {
		_, err := decodeAsk([]byte(share+end), false)
		var q view.SnapshotAsk
		other := decodeTagged([]byte(snapshot+end), maxSnapshotAsk, &q)
		if accepted := strings.TrimSpace(end) == "}"; (err == nil) != accepted || (other == nil) != accepted {
			t.Errorf("%s: %v, %v", end, err, other)
		}
	}
}

// No bytes of an operator make the decoders panic, and what they accept has the same meaning after
// another round. The same holds for what chronikctl accepts of an answer.
func FuzzTagged(f *testing.F) {
	for _, list := range taggedValues() {
		for _, v := range list {
			f.Add(encoded(v))
		}
	}
	f.Add([]byte(`{"topic":"t","partition":0,"first":0,"limit":500,"states":["available","delayed"]}`))
	f.Add([]byte(`{"topic":"t","partition":0,"first":0,"limit":501}`))
	f.Add([]byte(`{"topic":"t","partition":0,"first":2,"last":1,"action":"reject"}`))
	f.Add([]byte(`{"action":"delete","number":7} {}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, changes := range []bool{false, true} {
			ask, err := decodeAsk(p, changes)
			if err != nil {
				continue
			}
			if ask.First < 0 || changes && (ask.Last < ask.First || ask.Action == "") ||
				!changes && (ask.Action != "" || ask.Limit < 1 || ask.Limit > view.MaxShareRecords) {
				t.Errorf("changes %v: accepted %+v", changes, ask)
			}
			if len(encoded(ask)) <= view.MaxShareAsk { // escapes may make it longer
				if _, err := decodeAsk(encoded(ask), changes); err != nil {
					t.Errorf("changes %v: %+v is refused when it is repeated: %v", changes, ask, err)
				}
			}
		}
		strictly := func(p []byte, v any) error { return decodeTagged(p, max(len(p), maxSnapshotAsk), v) }
		decodesAgain[view.ShareAsk](t, p, strictly)
		decodesAgain[view.SnapshotAsk](t, p, strictly)
		decodesAgain[view.ShareRecords](t, p, json.Unmarshal)
		decodesAgain[view.ShareChange](t, p, json.Unmarshal)
		decodesAgain[view.SnapshotAnswer](t, p, json.Unmarshal)
		decodesAgain[view.SnapshotList](t, p, json.Unmarshal)
	})
}

// decodesAgain checks that a value that is accepted is the same after another round.
func decodesAgain[T any](t *testing.T, p []byte, decode func([]byte, any) error) {
	t.Helper()
	var first, second T
	if decode(p, &first) != nil {
		return
	}
	text := encoded(first)
	if err := decode(text, &second); err != nil || !bytes.Equal(encoded(second), text) {
		t.Errorf("%s became %s, %v", text, encoded(second), err)
	}
}
