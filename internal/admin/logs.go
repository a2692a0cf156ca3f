package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sorts"
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

func spotOf(l *view.Log) spot { return spot{l.Topic, l.Partition} }

// logs serves GET /v1/logs.
func logs(v *View, q url.Values) (any, error) {
	choice, err := parseLogChoice(q)
	if err != nil {
		return nil, err
	}
	chosen, have := firsts{most: choice.limit + 1, list: []view.Log{}}, map[string]bool{}
	v.Logs.Each(func(l *view.Log) {
		if !choice.has(l) {
			return
		}
		if len(choice.topics) > 0 {
			have[l.Topic] = true
		}
		if compareSpots(spotOf(l), choice.after) > 0 {
			chosen.add(l)
		}
	})
	if err := choice.covers(have, v.Image()); err != nil {
		return nil, err
	}
	list := chosen.sorted()
	more := len(list) > choice.limit
	list = list[:min(len(list), choice.limit)]
	for i := range list {
		v.Logs.Detail(&list[i])
	}
	return &view.Logs{More: more, List: list}, nil
}

// firsts keeps the first logs of many by their spots, and at most twice as many as it must.
type firsts struct {
	most int
	list []view.Log
	full bool // a log beyond the last one of the list is not one of the first
}

func (f *firsts) add(l *view.Log) {
	if f.full && compareSpots(spotOf(l), spotOf(&f.list[f.most-1])) > 0 {
		return
	}
	if f.list = append(f.list, *l); len(f.list) >= 2*f.most {
		f.list, f.full = f.sorted(), true
	}
}

// sorted returns the first logs in order.
func (f *firsts) sorted() []view.Log {
	sorts.Sort(f.list, func(x, y view.Log) int { return compareSpots(spotOf(&x), spotOf(&y)) })
	n := min(len(f.list), f.most)
	clear(f.list[n:])
	return f.list[:n]
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

// covers rejects a topic that is unknown and has no log here; have has the chosen topics with logs.
// A topic whose logs could not be created is known.
func (c *logChoice) covers(have map[string]bool, img *metadata.Image) error {
	for _, t := range c.topics {
		if !have[t] && img.Topic(t) == nil {
			return &apiError{http.StatusNotFound, "this broker has no partition of topic " + strconv.Quote(t)}
		}
	}
	return nil
}

func (c *logChoice) has(l *view.Log) bool {
	return (len(c.topics) == 0 || slices.Contains(c.topics, l.Topic)) && (c.partition < 0 || int64(l.Partition) == c.partition)
}
