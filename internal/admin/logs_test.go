package admin

import (
	"fmt"
	"net/url"
	"runtime"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// manyLogs are partitions of topics, the last one first.
type manyLogs struct{ topics, partitions int }

func (m manyLogs) Each(yield func(*view.Log)) {
	var x view.Log
	for t := m.topics - 1; t >= 0; t-- {
		for p := m.partitions - 1; p >= 0; p-- {
			x = view.Log{Topic: topicName(t), Partition: int32(p)}
			yield(&x)
		}
	}
}

func topicName(i int) string { return fmt.Sprintf("t%03d", i) }

func (manyLogs) Topics() []view.Topic { return nil }

func (manyLogs) Topic(*metadata.Image, *metadata.Topic) (view.Topic, []view.Log) {
	return view.Topic{}, nil
}

func (manyLogs) Detail(x *view.Log) { x.Retained = "read" }

// A request for a few of 10,000 logs takes memory for these few, and pages have all logs once, in
// order.
func TestOnlyTheLogsOfAPageAreBuilt(t *testing.T) {
	const topics, partitions = 100, 100
	v := &View{Logs: manyLogs{topics, partitions}, Image: func() *metadata.Image { return nil }}
	page := func(q url.Values) *view.Logs {
		got, err := logs(v, q)
		must.OK(t, err)
		return got.(*view.Logs)
	}
	took := func(limit int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		page(url.Values{"limit": {fmt.Sprint(limit)}})
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, all := took(20), took(topics*partitions); few > all/2 { // what the source allocates included
		t.Errorf("a page of 20 logs took %d bytes, one of all %d", few, all)
	}
	q := url.Values{"limit": {"700"}}
	seen := 0
	for more := true; more; {
		got := page(q)
		for _, l := range got.List {
			if want := (spot{topicName(seen / partitions), int32(seen % partitions)}); spotOf(&l) != want || l.Retained != "read" {
				t.Fatalf("log %d is %v, want %v", seen, spotOf(&l), want)
			}
			seen++
		}
		more = got.More
		last := got.List[len(got.List)-1]
		q.Set("after", fmt.Sprintf("%s/%d", last.Topic, last.Partition))
	}
	if seen != topics*partitions {
		t.Errorf("%d logs in all pages", seen)
	}
	if got := page(url.Values{"topic": {"t001"}, "limit": {"10000"}}); got.More || len(got.List) != partitions {
		t.Errorf("%d logs of one topic", len(got.List))
	}
}
