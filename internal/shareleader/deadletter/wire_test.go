package deadletter

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/golden"
)

func someMessages(t testing.TB) (*request, *answer) {
	t.Helper()
	w := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: record.FirstBrokerProducer + 5, Sequence: 3}})
	w.Append(1000, []byte("k"), []byte("v"), []record.Header{{Key: []byte(headerOffset), Value: []byte("12")}})
	b, err := w.Build()
	if err != nil {
		t.Fatal(err)
	}
	return &request{Target: Target{Topic: [16]byte{1, 2}, Partition: 3}, producer: record.FirstBrokerProducer + 5, after: 44, batch: b},
		&answer{Last: Last{Offset: 44, Sequence: 2, Leader: 70_000, Letters: []Letter{{9, 70_000}, {300, -1}}}, appended: true}
}

func TestMessagesAreDecodedAsTheyWereEncoded(t *testing.T) {
	q, a := someMessages(t)
	if got, err := decodeRequest(q.encode()); err != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("%+v %v, want %+v", got, err, q)
	}
	if got, err := decodeAnswer(a.encode()); err != nil || !reflect.DeepEqual(&got, a) {
		t.Errorf("%+v %v, want %+v", got, err, a)
	}
	for i := range len(q.encode()) {
		if _, err := decodeRequest(q.encode()[:i]); err == nil {
			t.Errorf("a request that ends after %d bytes is valid", i)
		}
	}
	for i := range len(a.encode()) {
		if _, err := decodeAnswer(a.encode()[:i]); err == nil {
			t.Errorf("an answer that ends after %d bytes is valid", i)
		}
	}
	former := q.encode()
	former[0]--
	if _, err := decodeRequest(former); err == nil || !strings.Contains(err.Error(), "upgrade the older broker") {
		t.Errorf("a request of a former version: %v", err)
	}
	q.producer++ // of another producer than the batch
	if _, err := decodeRequest(q.encode()); err == nil {
		t.Error("a request with a batch of another producer is valid")
	}
}

func TestFormatIsFixed(t *testing.T) {
	q, a := someMessages(t)
	got := fmt.Sprintf("request %x\n\nanswer %x\n", q.encode(), a.encode())
	golden.File(t, "testdata/messages.hex", got, "go test ./internal/shareleader/deadletter -run FormatIsFixed")
}

func FuzzMessages(f *testing.F) {
	q, a := someMessages(f)
	f.Add(q.encode())
	f.Add(a.encode())
	f.Fuzz(func(_ *testing.T, p []byte) {
		_, _ = decodeRequest(p)
		_, _ = decodeAnswer(p)
	})
}
