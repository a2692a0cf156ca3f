package top

import (
	"bytes"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// The golden file shows the tables, the busiest first, of one broker, of a cluster, with a limit
// and of nothing. No name moves the cursor.
func TestTables(t *testing.T) {
	trio := busy(14)
	trio.brokers = brokersOf(kadm.Metadata{
		Brokers: kadm.BrokerDetails{{NodeID: 1, Host: "a", Port: 9092}, {NodeID: 2, Host: "b", Port: 9092}},
		Topics: kadm.TopicDetails{"orders": {Partitions: kadm.PartitionDetails{
			0: {Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}},
			1: {Leader: 2, Replicas: []int32{2, 3, 1}, ISR: []int32{2}}}}}})
	var b bytes.Buffer
	for _, c := range []struct {
		name  string
		r     *Rates
		limit int
	}{
		{"all", compare(busy(10), busy(14)), 0},
		{"at most one row", compare(busy(10), busy(14)), 1},
		{"a cluster", compare(busy(10), trio), 10},
		{"nothing is known of the time before", compare(&sample{at: opened, admin: -1}, busy(4)), 10},
		{"nothing", compare(&sample{at: opened, admin: -1}, &sample{at: opened, admin: -1}), 10},
	} {
		b.WriteString("# " + c.name + "\n")
		c.r.sort()
		must.OK(t, output.Print(&b, output.Text, nil, c.r.tables(c.limit)...))
		b.WriteByte('\n')
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("a name has a control character")
	}
	golden.File(t, "testdata/tables.golden", b.String(), "go test ./internal/tools/ctl/top -run Tables")
}
