package shareload

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestACopyNamesItsRecord(t *testing.T) {
	judge := &check.Share{Limit: Limit, Letters: true}
	g := &Group{Name: "g", Judges: map[Partition]*check.Share{{"t", 1}: judge}}
	headers := []kgo.RecordHeader{{Key: "__dlq.errors.topic", Value: []byte("t")}, {Key: "__dlq.errors.partition", Value: []byte("1")},
		{Key: "__dlq.errors.group", Value: []byte("g")}, {Key: "__dlq.errors.offset", Value: []byte("7")}}
	copied := &kgo.Record{Value: []byte("v"), Headers: headers}
	if err := g.Copied(copied); err != nil {
		t.Fatal(err)
	}
	if problems := judge.Problems(nil, 8); len(problems) > 0 {
		t.Error(problems)
	}
	if err := g.Copied(copied); err != nil || len(judge.Problems(nil, 8)) == 0 {
		t.Errorf("a second copy is no problem: %v", err)
	}
	found := len(judge.Problems(nil, 8))
	if copied.ProducerID++; g.Copied(copied) != nil || len(judge.Problems(nil, 8)) != found {
		t.Error("a copy of another producer id is a problem")
	}
	copied.Headers = headers[1:]
	if g.Copied(copied) == nil {
		t.Error("a copy without a topic has no error")
	}
}
