package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
)

// A process reports the logs that it has, and only to a controller that means this process.
func TestReportsOfLogs(t *testing.T) {
	a, b := metadata.TopicPartition{Topic: [16]byte{1}}, metadata.TopicPartition{Topic: [16]byte{2}, Partition: 3}
	end := election.LogState{LastEpoch: 4, RecordEpoch: 3, End: 50}
	r := &reporter{[16]byte{7}, func(tp metadata.TopicPartition) (election.LogState, bool) { return end, tp == b }}
	c := &Cluster{self: membership.Member{ID: 9}}
	ask := func(incarnation byte) (map[metadata.TopicPartition]election.LogState, error) {
		return c.askReports(t.Context(), &metadata.Broker{Member: 9, Incarnation: [16]byte{incarnation}}, []metadata.TopicPartition{a, b})
	}
	if got, err := ask(7); err == nil {
		t.Errorf("before the registration: %v", got)
	}
	c.reporter.Store(r)
	got, err := ask(7)
	if diff := cmp.Diff(map[metadata.TopicPartition]election.LogState{b: end}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := ask(6); err == nil {
		t.Errorf("for another process: %v", got)
	}
}

// Requests and answers that this package does not send are refused.
func TestHostileReports(t *testing.T) {
	r := &reporter{end: func(metadata.TopicPartition) (election.LogState, bool) { return election.LogState{}, true }}
	zero := metadata.FormatID([16]byte{})
	entry := `{"topic":"` + zero + `"}`
	for name, q := range map[string]string{
		"empty": "", "no JSON": "x", "large": strings.Repeat(" ", maxOperation+1),
		"many": `{"incarnation":"` + zero + `","partitions":[` + strings.Repeat(entry+",", 10_000) + entry + `]}`,
	} {
		if p, err := r.answer([]byte(q)); err == nil {
			t.Errorf("%s: %s", name, p)
		}
	}
	for name, p := range map[string]string{
		"empty": "", "large": strings.Repeat(" ", maxOperation+1), "not asked": `{"logs":[{"topic":"` + zero + `","partition":1}]}`,
		"epoch":            `{"logs":[{"topic":"` + zero + `","lastEpoch":-2}]}`,
		"epoch of records": `{"logs":[{"topic":"` + zero + `","lastEpoch":2,"recordEpoch":3}]}`,
		"end":              `{"logs":[{"topic":"` + zero + `","end":-1}]}`,
	} {
		if got, err := unpackReports([]byte(p), make([]metadata.TopicPartition, 1)); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The error of an answer names its broker, and calls it an answer.
func TestAnAnswerThatCannotBeReadIsNamed(t *testing.T) {
	for name, p := range map[string]string{"large": strings.Repeat(" ", maxOperation+1), "no JSON": "x"} {
		_, err := reportsOf(&metadata.Broker{ID: 3}, []byte(p), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "answer of broker 3: ") || strings.Contains(err.Error(), "request") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
