package admin

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/admin/page"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/view"
)

// source is the page's Source: it reads the View of the running broker for each request and holds
// no state of it.
type source struct {
	o       Options
	started time.Time
}

// view returns the View, or an error with the phase of a broker that does not serve.
func (s *source) view() (*View, error) {
	if phase := s.o.Health.Phase(); phase != "" {
		return nil, fmt.Errorf("%w: %s", page.ErrNotServing, phase)
	}
	return s.o.View(), nil
}

// Status implements page.Source.
func (s *source) Status(ctx context.Context) page.Status {
	r := s.o.Health.Report(ctx)
	b := page.Status{
		ID:       r.Broker,
		Version:  r.Version,
		Now:      time.Now(),
		Started:  s.started,
		Phase:    r.Phase,
		Progress: r.Progress,
		Findings: r.Findings,
	}
	if v, err := s.view(); err == nil {
		all := v.Profiles()
		b.Addresses, b.Profile = v.Addresses, all.Standard()
	}
	return b
}

// Overview implements page.Source.
func (s *source) Overview(ctx context.Context) (page.Overview, error) {
	v, err := s.view()
	if err != nil {
		return page.Overview{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, groupTime)
	defer cancel()
	o := page.Overview{Dirs: v.Dirs(),
		Topics: v.Image().NumTopics(), Groups: len(v.Groups.Overview(ctx).List),
		Connections: v.Connected(), Heap: int64(heapBytes()), Budgets: v.Budgets()}
	o.Snapshots = v.Snapshots(ctx)
	for i := range o.Dirs {
		o.Partitions += o.Dirs[i].Logs
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		o.MemoryLimit = limit
	}
	if c := v.Cluster(); len(c.Brokers) > 1 {
		o.Brokers, o.Moving = c.Brokers, c.Moving
	}
	o.Waits = slices.DeleteFunc(v.Waits(page.MaxWaits).List, func(w view.Wait) bool { return w.Idle })
	return o, nil
}

// heapBytes returns the memory of live objects in Go's heap and of those not yet collected.
func heapBytes() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	runtimemetrics.Read(sample)
	if sample[0].Value.Kind() != runtimemetrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// Topics implements page.Source.
func (s *source) Topics() ([]view.Topic, error) {
	v, err := s.view()
	if err != nil {
		return nil, err
	}
	return v.Logs.Topics(), nil
}

// Topic implements page.Source.
func (s *source) Topic(ctx context.Context, name string) (page.TopicDetail, error) {
	v, err := s.view()
	if err != nil {
		return page.TopicDetail{}, err
	}
	img := v.Image()
	t := img.Topic(name)
	if t == nil {
		return page.TopicDetail{}, page.NotFound("There is no topic %q", name)
	}
	d := page.TopicDetail{}
	d.Topic, d.Partitions = v.Logs.Topic(img, t)
	for _, c := range v.Configs(img, t) {
		d.Configs = append(d.Configs, configOf(&c))
	}
	d.Findings = findingsOf(s.o.Health.Report(ctx), aboutTopic(&d))
	return d, nil
}

// aboutTopic returns a function that reports whether a finding is about a partition of a topic, or
// about the directory of one with a problem.
func aboutTopic(d *page.TopicDetail) func(*health.Finding) bool {
	dirs := map[string]bool{}
	for i := range d.Partitions {
		if p := &d.Partitions[i]; p.Problem() != "" {
			dirs[p.Where()] = true
		}
	}
	return func(f *health.Finding) bool {
		if f.About == nil {
			return false
		}
		several := len(f.About.Partitions) != 1 && f.About.Dir != "" || len(f.About.Partitions) > 1 // of which some are named
		return several && dirs[f.About.Dir] ||
			slices.ContainsFunc(d.Partitions, func(p view.Log) bool { return f.IsAboutLog(p.String()) })
	}
}

// findingsOf returns the findings of a report for which about is true.
func findingsOf(r *health.Report, about func(*health.Finding) bool) []health.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f health.Finding) bool { return !about(&f) })
}

// configOf returns a config with its source in the words of the page.
func configOf(v *configdef.Value) page.Config {
	c := page.Config{Name: v.Def.Name, Value: v.Value, Default: v.Def.Default, Set: v.Source != configdef.SourceDefault, Doc: v.Def.Doc}
	switch v.Source {
	case configdef.SourceTopic:
		c.Source = "this topic"
	case configdef.SourceDynamicBroker:
		c.Source = "this broker, at run time"
	case configdef.SourceDynamicAll:
		c.Source = "all brokers, at run time"
	case configdef.SourceStatic:
		c.Source = "broker configuration"
	default:
		c.Source = "default"
	}
	switch {
	case v.Def.Type == configdef.Password:
		c.Value, c.Default = "hidden", "hidden"
	case v.Null:
		c.Value = "none"
	}
	if !v.Def.HasDefault {
		c.Default = "none"
	}
	return c
}

// Connections implements page.Source.
func (s *source) Connections() ([]view.Connection, error) {
	v, err := s.view()
	if err != nil {
		return nil, err
	}
	return v.Connections(), nil
}

// totals returns a sample for the page's history; false if the broker does not serve.
func (s *source) totals() (page.Totals, bool) {
	v, err := s.view()
	if err != nil {
		return page.Totals{}, false
	}
	t := page.Totals{
		BytesIn:  metrics.Total(v.Network.BytesIn),
		BytesOut: metrics.Total(v.Network.BytesOut),
		Requests: metrics.Total(v.Requests.Count),
		Produce:  metrics.DistributionOf(v.Requests.Seconds, "Produce"),
		Heap:     float64(heapBytes()),
	}
	for _, records := range metrics.Distributions(v.Measured.GroupRecords) {
		t.Records += records.Sum
	}
	for _, syncs := range metrics.Distributions(v.Measured.SyncSeconds) {
		t.Syncs = t.Syncs.Merge(syncs)
	}
	for _, d := range v.Dirs() {
		t.JournalBytes += float64(d.JournalBytes)
	}
	return t, true
}
