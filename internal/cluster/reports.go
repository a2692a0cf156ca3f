package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// LogEnd returns how far a log goes, with the epoch -1 if it has no records. ok is false if there
// is no such log that can be read and written.
type LogEnd func(metadata.TopicPartition) (end election.LogState, ok bool)

// reporter is the process of a broker, and its logs.
type reporter struct {
	incarnation [16]byte
	end         LogEnd
}

// reportsRequest asks the process of a broker for its logs. The answer omits those that it lacks.
// Both are JSON.
type reportsRequest struct {
	Incarnation metadata.ID               `json:"incarnation"`
	Partitions  []metadata.TopicPartition `json:"partitions"`
}

type reportsAnswer struct {
	Logs []logReport `json:"logs"`
}

type logReport struct {
	metadata.TopicPartition
	LastEpoch int32 `json:"lastEpoch"`
	// RecordEpoch is absent in the answer of a broker of an earlier version: then LastEpoch is.
	RecordEpoch *int32 `json:"recordEpoch,omitempty"`
	End         int64  `json:"end"`
}

// askReports asks a registered process for the ends of logs. A later process of the same broker
// refuses: its logs may differ, and the controller decides on its registration then.
func (c *Cluster) askReports(ctx context.Context, of *metadata.Broker, logs []metadata.TopicPartition) (
	map[metadata.TopicPartition]election.LogState, error) {
	body, err := json.Marshal(reportsRequest{Incarnation: of.Incarnation, Partitions: logs})
	if err != nil {
		return nil, err
	}
	var p []byte
	if of.Member == c.self.ID {
		p, err = c.reporter.Load().answer(body)
	} else {
		p, err = c.book.Call(ctx, of.Member, methodReports, body)
	}
	if err != nil {
		return nil, err
	}
	return reportsOf(of, p, logs)
}

// reportsOf decodes the answer of a broker.
func reportsOf(of *metadata.Broker, p []byte, logs []metadata.TopicPartition) (map[metadata.TopicPartition]election.LogState, error) {
	got, err := unpackReports(p, logs)
	if err != nil {
		return nil, fmt.Errorf("answer of broker %d: %w", of.ID, err)
	}
	return got, nil
}

// unpackReports decodes an answer to a request for logs.
func unpackReports(p []byte, logs []metadata.TopicPartition) (map[metadata.TopicPartition]election.LogState, error) {
	var a reportsAnswer
	if err := decodeOperation(p, &a); err != nil {
		return nil, err
	}
	asked := make(map[metadata.TopicPartition]bool, len(logs))
	for _, tp := range logs {
		asked[tp] = true
	}
	got := make(map[metadata.TopicPartition]election.LogState, len(a.Logs))
	for _, l := range a.Logs {
		if l.RecordEpoch == nil {
			l.RecordEpoch = &l.LastEpoch
		}
		if !asked[l.TopicPartition] || *l.RecordEpoch < -1 || *l.RecordEpoch > l.LastEpoch || l.End < 0 {
			return nil, fmt.Errorf("it reports partition %d of topic %s, last epoch %d, end %d", l.Partition,
				metadata.FormatID(l.Topic), l.LastEpoch, l.End)
		}
		got[l.TopicPartition] = election.LogState{LastEpoch: l.LastEpoch, RecordEpoch: *l.RecordEpoch, End: l.End}
	}
	return got, nil
}

// answer answers a request for logs. r is nil before this process registers.
func (r *reporter) answer(body []byte) ([]byte, error) {
	if r == nil {
		return nil, errors.New("the logs of this broker are not open yet")
	}
	var q reportsRequest
	if err := decodeRequest(body, &q); err != nil {
		return nil, err
	}
	if len(q.Partitions) > controller.MaxPartitions {
		return nil, fmt.Errorf("a request for %d logs, more than %d", len(q.Partitions), controller.MaxPartitions)
	}
	if q.Incarnation != r.incarnation {
		return nil, errors.New("this broker was started again since the controller decided to ask it")
	}
	a := reportsAnswer{Logs: []logReport{}}
	for _, tp := range q.Partitions {
		if end, ok := r.end(tp); ok {
			a.Logs = append(a.Logs, logReport{TopicPartition: tp, LastEpoch: end.LastEpoch, RecordEpoch: &end.RecordEpoch, End: end.End})
		}
	}
	return json.Marshal(a)
}
