package top

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/health"
)

func TestRatesAreOfTheTimeBetween(t *testing.T) {
	r := compare(busy(10), busy(14))
	if r.Seconds != 4 || len(r.Brokers) != 2 || len(r.Topics) != 3 || len(r.Groups) != 3 || len(r.Clients) != 2 {
		t.Fatalf("%+v", r)
	}
	b := r.Brokers[0]
	if *b.Requests != 500 || *b.BytesIn != 1<<20 || *b.BytesOut != 1<<10 || *b.Syncs != 100 || math.Abs(*b.SyncMs-3) > 1e-9 ||
		*b.CPU != 0.25 || *b.Connections != 3 {
		t.Errorf("%+v", b)
	}
	if r.Brokers[1].Requests != nil || r.Brokers[1].Leads != 12 {
		t.Errorf("the broker without an admin port is %+v", r.Brokers[1])
	}
	if *r.Topics[0].RecordsIn != 5 || *r.Topics[1].RecordsIn != 10 || *r.Topics[2].RecordsIn != 20_000 {
		t.Errorf("%+v", r.Topics)
	}
	if g := r.Groups[0]; *g.Read != 50 || *g.Growth != -10 || *g.Lag != 860 || *g.Members != 3 {
		t.Errorf("%+v", g)
	}
	if g := r.Groups[2]; g.Lag != nil || g.Read != nil || g.Error == "" {
		t.Errorf("%+v", g)
	}
	if c := r.Clients[1]; c.ClientID != "shop" || c.Connections != 2 || *c.Requests != 200 || *c.RecordsIn != 100 ||
		*c.BytesIn != 2000 || c.InFlight != 2 {
		t.Errorf("%+v", c)
	}
	if c := r.Clients[0]; *c.Requests != 0 || !c.Throttled {
		t.Errorf("%+v", c)
	}
	r.hideInternal()
	if len(r.Topics) != 2 {
		t.Errorf("%+v", r.Topics)
	}
}

// Things created since the first sample count in full. Rates of unknown ones are unknown.
func TestRatesOfWhatWasNotThereBefore(t *testing.T) {
	empty := &sample{at: busy(0).at, admin: 1, loads: map[int32]health.Load{1: {}}, topics: busy(0).topics[:0]}
	r := compare(empty, busy(2))
	if *r.Topics[1].RecordsIn != 60 || *r.Clients[1].Requests != 200 || *r.Brokers[0].Requests != 500 {
		t.Errorf("%+v", r)
	}
	if r.Groups[0].Read != nil {
		t.Errorf("the reading of a group that was not known is %v", *r.Groups[0].Read)
	}
	unknown := &sample{at: busy(0).at, admin: -1}
	r = compare(unknown, busy(2))
	c := r.Clients[1]
	if r.Topics[1].RecordsIn != nil || r.Brokers[0].Requests != nil || c.Connections != 2 || c.InFlight != 2 ||
		c.Requests != nil || c.RecordsIn != nil || c.BytesIn != nil || c.BytesOut != nil {
		t.Errorf("%+v", r)
	}
	partial := busy(0) // the only partition of one topic and one of another had no leaders
	delete(partial.topics[1].Ends, 0)
	delete(partial.topics[2].Ends, 1)
	r = compare(partial, busy(2))
	if r.Topics[1].RecordsIn != nil || *r.Topics[2].RecordsIn != 10_000 {
		t.Errorf("%+v", r.Topics)
	}
}

// A counter that fell was reset to 0, so no rate is negative.
func TestRatesAfterARestart(t *testing.T) {
	before, now := busy(100), busy(2)
	now.at = before.at.Add(2 * time.Second)
	for i := range now.connections {
		now.connections[i].Opened = opened.Add(time.Minute)
	}
	r := compare(before, now)
	if *r.Brokers[0].Requests != 500 || *r.Clients[1].Requests != 200 {
		t.Errorf("%v, %v", *r.Brokers[0].Requests, *r.Clients[1].Requests)
	}
	if *r.Groups[0].Read != 0 {
		t.Errorf("a group whose offsets were reset reads %v", *r.Groups[0].Read)
	}
}

// The JSON has empty lists instead of null, and null for unknown values.
func TestReportAsJSON(t *testing.T) {
	text, err := json.Marshal(compare(&sample{at: opened, admin: -1},
		&sample{at: opened.Add(time.Second), admin: -1, brokers: busy(0).brokers[:1]}))
	want := `{"at":"2026-11-21T08:00:01Z","seconds":1,"brokers":[{"id":1,"address":"127.0.0.1:9092","leads":30,"outOfSync":0,` +
		`"connections":null,"requestsPerSecond":null,` +
		`"bytesInPerSecond":null,"bytesOutPerSecond":null,"syncsPerSecond":null,"syncMs":null,"cpus":null,"memoryBytes":null}],` +
		`"topics":[],"groups":[],"clients":[],"missing":[]}`
	if err != nil || string(text) != want {
		t.Errorf("%v\n got %s\nwant %s", err, text, want)
	}
	if text, err = json.Marshal(compare(busy(0), busy(1))); err != nil ||
		!strings.Contains(string(text), `"recordsInPerSecond":20000,"records":20000,"sizeBytes":null`) {
		t.Errorf("%s, %v", text, err)
	}
}
