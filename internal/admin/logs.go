package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/view"
)

// defaultLogs is the number of logs in a response unless the request sets a limit.
const defaultLogs = 1000

// logChoice holds the parameters of a request for logs.
type logChoice struct {
	topics    []string // empty: all
	partition int64    // -1: all
	limit     int
	after     spot
}

// spot is a position in the list of partitions.
type spot struct {
	topic     string
	partition int32
}

func compareSpots(a, b spot) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// String returns the partition as Kafka names it.
func (s spot) String() string { return fmt.Sprintf("%s-%d", s.topic, s.partition) }

func spotOf(l *storage.Log) spot { return spot{l.Topic(), l.ID().Partition} }

// logs serves GET /v1/logs.
func logs(v *View, q url.Values) (any, error) {
	choice, err := parseLogChoice(q)
	if err != nil {
		return nil, err
	}
	all := v.Storage.Logs()
	if err := choice.covers(all, v.Image()); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(l *storage.Log) bool { return !choice.has(l) })
	slices.SortFunc(all, func(x, y *storage.Log) int { return compareSpots(spotOf(x), spotOf(y)) })
	more := len(all) > choice.limit
	all = all[:min(len(all), choice.limit)]
	list := make([]view.Log, len(all))
	for i, l := range all {
		list[i] = v.logState(l)
	}
	return &view.Logs{More: more, List: list}, nil
}

func parseLogChoice(q url.Values) (c logChoice, err error) {
	c = logChoice{topics: q["topic"], partition: -1, limit: defaultLogs, after: spot{partition: -1}}
	if err := known(q, "topic", "partition", "limit", "after"); err != nil {
		return c, err
	}
	if v := q.Get("partition"); v != "" {
		if c.partition, err = strconv.ParseInt(v, 10, 32); err != nil || c.partition < 0 {
			return c, BadRequest("partition=%s is not a partition", v)
		}
	}
	if v := q.Get("limit"); v != "" {
		if c.limit, err = strconv.Atoi(v); err != nil || c.limit < 1 || c.limit > view.MaxLogs {
			return c, BadRequest("limit=%s is not a number from 1 to %d", v, view.MaxLogs)
		}
	}
	if v := q.Get("after"); v != "" {
		topic, n, _ := strings.Cut(v, "/")
		partition, err := strconv.ParseInt(n, 10, 32)
		if err != nil || partition < 0 || topic == "" {
			return c, BadRequest("after=%s is not TOPIC/PARTITION", v)
		}
		c.after = spot{topic, int32(partition)}
	}
	return c, nil
}

// covers rejects a topic that is unknown and has no log here. A topic whose logs could not be
// created is known.
func (c *logChoice) covers(all []*storage.Log, img *metadata.Image) error {
	for _, t := range c.topics {
		if img.Topic(t) == nil && !slices.ContainsFunc(all, func(l *storage.Log) bool { return l.Topic() == t }) {
			return &apiError{http.StatusNotFound, "this broker has no partition of topic " + strconv.Quote(t)}
		}
	}
	return nil
}

func (c *logChoice) has(l *storage.Log) bool {
	at := spotOf(l)
	return (len(c.topics) == 0 || slices.Contains(c.topics, at.topic)) &&
		(c.partition < 0 || int64(at.partition) == c.partition) && compareSpots(at, c.after) > 0
}

// logState describes one log.
func (v *View) logState(l *storage.Log) view.Log {
	conf, ends := l.Config(), l.Ends()
	s := view.Log{
		Topic: l.Topic(), TopicID: metadata.FormatID(l.ID().Topic), Partition: l.ID().Partition, Dir: l.Dir().Path(),
		Leader: -1, LeaderEpoch: -1, ISR: []int32{}, Replicas: []int32{},
		LogStart: ends.LogStart, HighWatermark: ends.LogStart, DurableEnd: ends.Durable, LogEnd: ends.LogEnd,
		Bytes: l.Size(), Segments: l.Segments(), Profile: conf.Profile.Name,
		CleanupPolicy: policyText(conf.Cleanup), RetentionMs: -1, RetentionBytes: max(conf.Cleanup.RetentionBytes, -1),
		Retained: l.Retained(), Error: errorText(l.Err()), Damaged: errorText(l.Damaged()),
	}
	if ratio, ok := l.DirtyRatio(); ok {
		s.DirtyRatio = &ratio
	}
	if conf.Cleanup.RetentionTime >= 0 {
		s.RetentionMs = conf.Cleanup.RetentionTime.Milliseconds()
	}
	if p, err := v.Replicas.Partition(l.ID().Topic, l.ID().Partition); err == nil {
		s.HighWatermark = p.Ends().HighWatermark
		s.Leader, s.LeaderEpoch = p.Leader()
	}
	if p := v.Image().Partition(metadata.TopicPartition{Topic: l.ID().Topic, Partition: l.ID().Partition}); p != nil {
		s.ISR, s.Replicas = p.ISR, p.Replicas
	}
	return s
}

// policyText returns cleanup.policy as a config writes it.
func policyText(c storage.Cleanup) string {
	var parts []string
	if c.Compact {
		parts = append(parts, "compact")
	}
	if c.Delete {
		parts = append(parts, "delete")
	}
	return strings.Join(parts, ",")
}
