package configdef

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/pkg/durability"
)

// Profiles knows the durability profiles, *durability.Set does. The error of a
// name that it does not know lists those that it knows.
type Profiles interface {
	Lookup(name string) (durability.Profile, error)
}

// Options are what a Registry depends on.
type Options struct {
	Profiles Profiles
	// ProducePresets are the names that chronik.produce.profile may have.
	ProducePresets []string
}

// Registry knows every config. It is immutable.
type Registry struct {
	profiles Profiles
	topic    map[string]*Def // also those not honoured
	group    map[string]*Def // also those not honoured
	broker   map[string]*Def
	foreign  map[string]bool // broker configs of Kafka that chronik does not honour
	topics   []*Def          // honoured, sorted by name
	brokers  []*Def
	groups   []*Def // honoured, sorted by name
}

// New builds the registry.
func New(opts Options) *Registry {
	topics := topicDefs(opts.Profiles)
	brokers := brokerDefs(opts, topics)
	groups := singleGroupDefs()
	r := &Registry{profiles: opts.Profiles, topic: byName(topics), group: byName(groups), broker: byName(brokers), foreign: map[string]bool{},
		topics: topics, brokers: brokers, groups: groups}
	maps.Copy(r.topic, byName(foreignTopicDefs()))
	maps.Copy(r.group, byName(foreignGroupDefs()))
	for _, name := range strings.Fields(foreignBrokerNames + formerBrokerNames) {
		r.foreign[name] = true
	}
	for _, defs := range [][]*Def{r.topics, r.brokers, r.groups} {
		slices.SortFunc(defs, func(a, b *Def) int { return cmp.Compare(a.Name, b.Name) })
	}
	return r
}

func byName(defs []*Def) map[string]*Def {
	m := make(map[string]*Def, len(defs))
	for _, d := range defs {
		m[d.Name] = d
	}
	return m
}

// Topics are the topic configs that chronik honours, sorted by name. The slice
// must not be changed.
func (r *Registry) Topics() []*Def { return r.topics }

// Brokers are the broker configs that chronik reads, sorted by name. The slice
// must not be changed.
func (r *Registry) Brokers() []*Def { return r.brokers }

// GroupDefs are the configs of single groups that chronik honours, sorted by name.
// The slice must not be changed.
func (r *Registry) GroupDefs() []*Def { return r.groups }

// ForeignBrokers are the names of broker configs that Kafka has or had and chronik
// refuses, sorted.
func (r *Registry) ForeignBrokers() []string { return slices.Sorted(maps.Keys(r.foreign)) }

// ForeignTopics are those of topics.
func (r *Registry) ForeignTopics() []string { return foreign(r.topic) }

// ForeignGroups are those of single groups.
func (r *Registry) ForeignGroups() []string { return foreign(r.group) }

func foreign(defs map[string]*Def) []string {
	var names []string
	for name, d := range defs {
		if !d.Honoured {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Foreign reports whether Kafka has or had a broker config of that name and chronik
// doesn't.
func (r *Registry) Foreign(name string) bool { return r.foreign[name] }

// Topic is the topic config of that name, nil where neither chronik nor Kafka has
// one; see Def.Honoured.
func (r *Registry) Topic(name string) *Def { return r.topic[name] }

// Broker is the broker config of that name, nil where chronik reads none.
func (r *Registry) Broker(name string) *Def { return r.broker[name] }

// CheckTopic says whether a topic may have these overrides. The first offence by
// name is returned, an *Error.
func (r *Registry) CheckTopic(set map[string]string) error {
	if err := checkSet(r.topic, set, "topic"); err != nil {
		return err
	}
	if err := r.checkFlush(set); err != nil {
		return err
	}
	return r.checkLags(set, minLag, maxLag)
}

// checkSet holds what is set on a topic or on a group against their definitions.
func checkSet(defs map[string]*Def, set map[string]string, kind string) error {
	names := slices.Sorted(maps.Keys(set))
	for _, name := range names {
		if defs[name] == nil {
			return &Error{name, fmt.Sprintf("Unknown %s config name: %s", kind, name)}
		}
	}
	for _, name := range names {
		d := defs[name]
		if err := d.Check(set[name]); err != nil {
			return err
		}
		if !d.Honoured {
			return refused(strings.ToUpper(kind[:1])+kind[1:], name)
		}
	}
	return nil
}

// CheckDynamic says whether brokers may have these dynamic configs: one broker,
// or with all every broker. The error is an *Error.
func (r *Registry) CheckDynamic(set map[string]string, all bool) error {
	var fixed, single []string
	names := slices.Sorted(maps.Keys(set))
	for _, name := range names {
		d := r.broker[name]
		switch {
		case d == nil:
			return r.unknownBroker(name)
		case d.Update == ReadOnly:
			fixed = append(fixed, name)
		case d.Update == PerBroker && all:
			single = append(single, name)
		}
	}
	if len(fixed) > 0 {
		return &Error{Msg: fmt.Sprintf("Cannot update these configs dynamically: [%s]", strings.Join(fixed, ", "))}
	}
	for _, name := range names {
		if err := r.broker[name].Check(set[name]); err != nil {
			return err
		}
	}
	if len(single) > 0 {
		return &Error{Msg: fmt.Sprintf("Cannot update these configs at default cluster level, broker id must be specified: [%s]",
			strings.Join(single, ", "))}
	}
	return r.checkLags(set, brokerMinLag, brokerMaxLag)
}

// CheckStatic says whether a broker may start with these configs. The error is
// an *Error.
func (r *Registry) CheckStatic(set map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		d := r.broker[name]
		if d == nil {
			return r.unknownBroker(name)
		}
		if err := d.Check(set[name]); err != nil {
			return err
		}
	}
	node, hasNode := set["node.id"]
	broker, hasBroker := set["broker.id"]
	if hasNode && hasBroker && r.broker["node.id"].Canonical(node) != r.broker["broker.id"].Canonical(broker) {
		return &Error{"broker.id", "node.id and broker.id are two names of one config and must have the same value"}
	}
	b, err := r.ResolveBroker(set)
	if err != nil {
		return err
	}
	if err := r.checkLags(set, brokerMinLag, brokerMaxLag); err != nil {
		return err
	}
	return b.Groups.check()
}

func (r *Registry) unknownBroker(name string) error {
	if r.foreign[name] {
		return refused("Broker", name)
	}
	return &Error{name, "Unknown broker config name: " + name}
}
