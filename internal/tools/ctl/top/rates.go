package top

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/tools/ctl/topic"
	"github.com/chronik-io/chronik/internal/view"
)

// Rates is the difference between two samples. Rates are per second; null is unknown.
type Rates struct {
	At      time.Time     `json:"at"`
	Seconds float64       `json:"seconds"` // duration of the measurement
	Brokers []BrokerRates `json:"brokers"`
	Topics  []TopicRates  `json:"topics"`
	Groups  []GroupRates  `json:"groups"`
	Clients []ClientRates `json:"clients"`
	Missing []string      `json:"missing"` // what could not be fetched, and why

	elsewhere string // see sample
}

// BrokerRates holds the rates of a broker. One that does not answer has no more than OutOfSync.
type BrokerRates struct {
	ID          int32    `json:"id"`
	Address     string   `json:"address"`
	State       string   `json:"state,omitempty"` // in a cluster
	Leads       int      `json:"leads"`           // partitions that it leads
	OutOfSync   int      `json:"outOfSync"`       // replicas that are not in the ISR
	Connections *float64 `json:"connections"`
	Requests    *float64 `json:"requestsPerSecond"`
	BytesIn     *float64 `json:"bytesInPerSecond"`
	BytesOut    *float64 `json:"bytesOutPerSecond"`
	Syncs       *float64 `json:"syncsPerSecond"` // fdatasync calls of its journals
	SyncMs      *float64 `json:"syncMs"`         // mean duration of a sync
	CPU         *float64 `json:"cpus"`           // processors in use
	Memory      *float64 `json:"memoryBytes"`    // resident
}

// TopicRates holds the rates of a topic.
type TopicRates struct {
	Topic      string   `json:"topic"`
	Internal   bool     `json:"internal"`
	Partitions int      `json:"partitions"`
	RecordsIn  *float64 `json:"recordsInPerSecond"` // of the partitions whose ends both samples have
	Records    int64    `json:"records"`            // offsets between start and end: an upper bound
	Size       *int64   `json:"sizeBytes"`
}

// GroupRates holds the rates of a group.
type GroupRates struct {
	Group   string   `json:"group"`
	State   string   `json:"state"`
	Members *int     `json:"members"`
	Read    *float64 `json:"recordsPerSecond"` // according to its commits
	Lag     *int64   `json:"lag"`
	Growth  *float64 `json:"lagGrowthPerSecond"` // negative if the group is catching up
	Error   string   `json:"error,omitempty"`
}

// ClientRates sums all open connections with one client id from one host.
type ClientRates struct {
	ClientID    string   `json:"clientId"`
	Host        string   `json:"host"`
	Software    string   `json:"software"` // with its version, as the client reports it
	Connections int      `json:"connections"`
	Requests    *float64 `json:"requestsPerSecond"`
	RecordsIn   *float64 `json:"recordsInPerSecond"`
	BytesIn     *float64 `json:"bytesInPerSecond"`
	BytesOut    *float64 `json:"bytesOutPerSecond"`
	InFlight    int      `json:"inFlight"`
	Throttled   bool     `json:"throttled"` // at least one of its connections is
}

// compare compares a sample with a later one.
func compare(before, now *sample) *Rates {
	d := delta{before, now, now.at.Sub(before.at).Seconds()}
	r := &Rates{At: now.at, Seconds: d.seconds, Missing: slices.Clone(now.missing), elsewhere: now.elsewhere,
		Brokers: []BrokerRates{}, Topics: []TopicRates{}, Groups: []GroupRates{}, Clients: []ClientRates{}}
	if r.Missing == nil {
		r.Missing = []string{}
	}
	for _, b := range now.brokers {
		r.Brokers = append(r.Brokers, d.broker(b))
	}
	earlier := map[string]*topic.Total{}
	for i := range before.topics {
		earlier[before.topics[i].Topic] = &before.topics[i]
	}
	for _, t := range now.topics {
		r.Topics = append(r.Topics, d.topic(earlier[t.Topic], t))
	}
	stood := map[string]groupNow{}
	for _, g := range before.groups {
		stood[g.name] = g
	}
	for _, g := range now.groups {
		was, ok := stood[g.name]
		r.Groups = append(r.Groups, d.group(was, ok && was.err == nil, g))
	}
	r.Clients = append(r.Clients, d.clients()...)
	return r
}

// hideInternal removes internal topics.
func (r *Rates) hideInternal() {
	r.Topics = slices.DeleteFunc(r.Topics, func(t TopicRates) bool { return t.Internal })
}

// delta compares two samples.
type delta struct {
	before, now *sample
	seconds     float64
}

// rate returns the growth of a counter per second. A counter that fell was reset by a restart of
// its broker.
func (d delta) rate(before, now float64) float64 {
	if now < before {
		before = 0
	}
	if d.seconds <= 0 {
		return 0
	}
	return (now - before) / d.seconds
}

func (d delta) broker(b brokerNow) BrokerRates {
	x := BrokerRates{ID: b.id, Address: b.address, State: b.state, Leads: b.leads, OutOfSync: b.outOfSync}
	now, ok := d.now.loads[b.id]
	if !ok {
		return x
	}
	connections := float64(now.Connections)
	x.Connections, x.Memory = &connections, &now.MemoryBytes
	before, ok := d.before.loads[b.id]
	if !ok {
		return x
	}
	counter := func(before, now float64) *float64 { return new(d.rate(before, now)) }
	x.Requests, x.CPU = counter(before.Requests, now.Requests), counter(before.CPUSeconds, now.CPUSeconds)
	x.BytesIn, x.BytesOut = counter(before.BytesIn, now.BytesIn), counter(before.BytesOut, now.BytesOut)
	x.Syncs = counter(before.Syncs, now.Syncs)
	if *x.Syncs > 0 {
		ms := *counter(before.SyncSeconds, now.SyncSeconds) / *x.Syncs * 1000
		x.SyncMs = &ms
	}
	return x
}

func (d delta) topic(was *topic.Total, t topic.Total) TopicRates {
	x := TopicRates{Topic: t.Topic, Internal: t.Internal, Partitions: t.Partitions, Records: t.Records, Size: t.Size}
	if d.before.topics == nil {
		return x
	}
	for p, end := range t.Ends {
		var before int64 // of a new topic, whose records are all new
		known := was == nil
		if !known {
			before, known = was.Ends[p]
		}
		if known {
			add(&x.RecordsIn, d.rate(float64(before), float64(end)))
		}
	}
	return x
}

func (d delta) group(was groupNow, compared bool, g groupNow) GroupRates {
	x := GroupRates{Group: g.name, State: g.State}
	if g.err != nil {
		x.Error = g.err.Error()
		return x
	}
	x.Members, x.Lag = &g.Members, &g.Lag
	if compared && d.seconds > 0 {
		// An offset that was reset backwards was not read.
		read, growth := max(float64(g.Committed-was.Committed), 0)/d.seconds, float64(g.Lag-was.Lag)/d.seconds
		x.Read, x.Growth = &read, &growth
	}
	return x
}

// add adds a rate to a sum, which is unknown without one.
func add(sum **float64, rate float64) {
	if *sum == nil {
		*sum = new(float64)
	}
	**sum += rate
}

// clients sums the connections by client id and host. Their rates are unknown if the first sample
// has the connections of no broker, or of another one.
func (d delta) clients() []ClientRates {
	type sender struct{ id, host string }
	type lasting struct { // a restarted broker numbers connections from 1 again
		id     uint64
		opened time.Time
	}
	earlier := map[lasting]*view.Connection{}
	for i := range d.before.connections {
		c := &d.before.connections[i]
		earlier[lasting{c.ID, c.Opened}] = c
	}
	all := map[sender]*ClientRates{}
	for _, c := range d.now.connections {
		host, _, err := net.SplitHostPort(c.Address)
		if err != nil {
			host = c.Address
		}
		x := all[sender{c.ClientID, host}]
		if x == nil {
			x = &ClientRates{ClientID: c.ClientID, Host: host}
			all[sender{c.ClientID, host}] = x
		}
		if x.Software == "" {
			x.Software = c.Program()
		}
		x.Connections++
		x.InFlight += c.InFlight
		x.Throttled = x.Throttled || c.ThrottledMs > 0
		if d.before.admin != d.now.admin {
			continue
		}
		was := earlier[lasting{c.ID, c.Opened}]
		if was == nil { // a new connection
			was = &view.Connection{}
		}
		add(&x.Requests, d.rate(float64(was.Requests), float64(c.Requests)))
		add(&x.RecordsIn, d.rate(float64(was.RecordsIn), float64(c.RecordsIn)))
		add(&x.BytesIn, d.rate(float64(was.BytesIn), float64(c.BytesIn)))
		add(&x.BytesOut, d.rate(float64(was.BytesOut), float64(c.BytesOut)))
	}
	var list []ClientRates
	for _, k := range sorts.Sorted(maps.Keys(all),
		func(x, y sender) int { return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.host, y.host)) }) {
		list = append(list, *all[k])
	}
	return list
}
