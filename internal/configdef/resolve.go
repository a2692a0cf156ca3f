package configdef

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/chronik-io/chronik/internal/sorts"
)

// Layers are the places where a config may be set, strongest first, with names and checked raw
// values. Any may be nil; none is modified.
type Layers struct {
	Topic map[string]string // the topic's overrides
	Group map[string]string // the consumer group's
	// Subscription is a subscription's to metrics of clients.
	Subscription map[string]string
	Broker       map[string]string // dynamic, for this broker
	All          map[string]string // dynamic, for all brokers
	Static       map[string]string // file, flags and environment of this broker
	// Replicas is the number of replicas of the topic's partitions, for the default of
	// min.insync.replicas; 0 counts as 1.
	Replicas int
}

// Setting is a place that sets a value for a config.
type Setting struct {
	Name   string // of the config that is set: a synonym, or the config itself
	Value  string // in that config's unit
	Source Source
}

// Value is a config with its resolved value.
type Value struct {
	Def *Def
	// Value is the canonical text, in the config's own unit.
	Value string
	// Null means that the config has no value.
	Null   bool
	Source Source
	// Settings are all places that set a value for the config, strongest first: its synonyms in
	// DescribeConfigs.
	Settings []Setting
}

// DescribeTopic resolves all topic configs that chronik uses, sorted by name, without internal ones
// that are not set. The durability profile is the effective one, which may be stronger than the
// broker's; see synced.
func (r *Registry) DescribeTopic(l Layers) []Value {
	values := make([]Value, 0, len(r.topics))
	t, err := r.ResolveTopic(l)
	for _, d := range r.topics {
		v := r.resolve(d, l)
		if d.Internal && len(v.Settings) == 0 {
			continue
		}
		if d.Name == DurabilityProfile && err == nil {
			v.Value = t.Durability.Name
		}
		values = append(values, v)
	}
	return values
}

// DescribeBroker resolves all broker configs, sorted by name. It ignores Layers.Topic and
// Layers.Group.
func (r *Registry) DescribeBroker(l Layers) []Value {
	l.Topic, l.Group = nil, nil
	if n, err := strconv.Atoi(r.resolve(r.broker["default.replication.factor"], l).Value); err == nil {
		l.Replicas = n
	}
	values := make([]Value, 0, len(r.brokers))
	for _, d := range append(r.listenerDefs(l.Broker, l.All, l.Static), r.brokers...) {
		values = append(values, r.resolve(d, l))
	}
	sortValues(values)
	return values
}

func sortValues(values []Value) {
	sorts.Sort(values, func(a, b Value) int { return cmp.Compare(a.Def.Name, b.Def.Name) })
}

// DescribeAll returns the broker configs that are set dynamically for all brokers, with those
// values only: Kafka's answer for the broker with the empty name.
func (r *Registry) DescribeAll(all map[string]string) []Value {
	var values []Value
	for _, d := range append(r.listenerDefs(all), r.brokers...) {
		if raw, ok := all[d.Name]; ok {
			s := Setting{d.Name, d.Canonical(raw), SourceDynamicAll}
			values = append(values, Value{Def: d, Value: s.Value, Source: s.Source, Settings: []Setting{s}})
		}
	}
	sortValues(values)
	return values
}

// resolve returns a config's value, from the strongest setting.
func (r *Registry) resolve(d *Def, l Layers) Value {
	v := Value{Def: d, Settings: r.settings(d, l)}
	if len(v.Settings) == 0 {
		v.Null, v.Source = !d.HasDefault, SourceDefault
		v.Value = d.Canonical(d.defaultFor(l))
		return v
	}
	first := v.Settings[0]
	v.Source, v.Value = first.Source, d.Canonical(scale(first.Value, d.scaleOf(first.Name)))
	return v
}

// defaultFor returns the default for a topic with a number of replicas.
func (d *Def) defaultFor(l Layers) string {
	if d.Name == MinInsyncReplicas {
		return strconv.Itoa(majority(max(l.Replicas, 1)))
	}
	return d.Default
}

func (r *Registry) settings(d *Def, l Layers) []Setting {
	var found []Setting
	if raw, ok := l.Topic[d.Name]; ok {
		found = append(found, Setting{d.Name, d.Canonical(raw), SourceTopic})
	}
	if raw, ok := l.Group[d.Name]; ok {
		found = append(found, Setting{d.Name, d.Canonical(raw), SourceGroup})
	}
	if raw, ok := l.Subscription[d.Name]; ok {
		found = append(found, Setting{d.Name, d.Canonical(raw), SourceSubscription})
	}
	for _, layer := range []struct {
		set    map[string]string
		source Source
	}{{l.Broker, SourceDynamicBroker}, {l.All, SourceDynamicAll}, {l.Static, SourceStatic}} {
		for _, s := range d.Synonyms {
			if raw, ok := layer.set[s.Name]; ok {
				found = append(found, Setting{s.Name, r.Broker(s.Name).Canonical(raw), layer.source})
			}
		}
	}
	for _, s := range d.Synonyms {
		if b := r.Broker(s.Name); b.HasDefault {
			found = append(found, Setting{s.Name, b.Canonical(b.defaultFor(l)), SourceDefault})
		}
	}
	return found
}

// scaleOf returns the factor from a synonym's unit to the config's.
func (d *Def) scaleOf(name string) int64 {
	for _, s := range d.Synonyms {
		if s.Name == name {
			return s.Scale
		}
	}
	return 1
}

// scale multiplies a number; Int values times the largest scale do not overflow. Negative values
// mean no limit in every unit.
func scale(raw string, by int64) string {
	if by == 1 {
		return raw
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || n < 0 {
		return raw
	}
	return strconv.FormatInt(n*by, 10)
}

// reader reads typed values from layers and keeps the first error, which only unchecked values can
// cause.
type reader struct {
	r    *Registry
	defs map[string]*Def
	l    Layers
	err  error
}

func (f *reader) value(name string) value {
	d := f.defs[name]
	if d == nil {
		f.fail(fmt.Errorf("BUG: config %s is read but not defined", name))
		return value{}
	}
	resolved := f.r.resolve(d, f.l)
	if resolved.Null {
		return value{}
	}
	if err := d.Check(resolved.Value); err != nil {
		f.fail(err)
		return value{}
	}
	v, err := d.parse(resolved.Value)
	if err != nil {
		f.fail(err)
	}
	return v
}

func (f *reader) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}
