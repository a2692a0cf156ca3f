package configdef

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Profiles has the durability profiles; *durability.Set implements it. The error for an unknown
// name lists the known ones.
type Profiles interface {
	Lookup(name string) (durability.Profile, error)
}

// Options configure a Registry.
type Options struct {
	Profiles Profiles
	// ProduceProfiles are the valid names for chronik.produce.profile.
	ProduceProfiles []string
}

// Registry has all configs. It is immutable.
type Registry struct {
	profiles Profiles
	topic    map[string]*Def // including those that are not supported
	group    map[string]*Def // including those that are not supported
	broker   map[string]*Def
	foreign  map[string]bool // broker configs of Kafka that chronik does not use
	topics   []*Def          // supported, sorted by name
	brokers  []*Def
	groups   []*Def // supported, sorted by name
	// The configs of subscriptions to metrics of clients, by name and sorted.
	subscription  map[string]*Def
	subscriptions []*Def
}

// New builds the registry.
func New(opts Options) *Registry {
	topics := topicDefs(opts.Profiles)
	brokers := brokerDefs(opts, topics)
	groups := singleGroupDefs()
	r := &Registry{profiles: opts.Profiles, topic: byName(topics), group: byName(groups), broker: byName(brokers),
		foreign: map[string]bool{},
		topics:  topics, brokers: brokers, groups: groups, subscriptions: subscriptionDefs()}
	r.subscription = byName(r.subscriptions)
	maps.Copy(r.topic, byName(foreignTopicDefs()))
	maps.Copy(r.group, byName(foreignGroupDefs()))
	for _, name := range strings.Fields(foreignBrokerNames + formerBrokerNames) {
		r.foreign[name] = true
	}
	for _, defs := range [][]*Def{r.topics, r.brokers, r.groups, r.subscriptions} {
		sorts.Sort(defs, func(a, b *Def) int { return cmp.Compare(a.Name, b.Name) })
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

// Topics returns the topic configs that chronik uses, sorted by name. The slice must not be
// modified.
func (r *Registry) Topics() []*Def { return r.topics }

// Brokers returns the broker configs that chronik reads, sorted by name. The slice must not be
// modified.
func (r *Registry) Brokers() []*Def { return r.brokers }

// GroupDefs returns the configs of single groups that chronik uses, sorted by name. The slice must
// not be modified.
func (r *Registry) GroupDefs() []*Def { return r.groups }

// ForeignBrokers returns the names of broker configs that Kafka has or had and chronik refuses,
// sorted.
func (r *Registry) ForeignBrokers() []string { return slices.Sorted(maps.Keys(r.foreign)) }

// ForeignTopics returns those of topics.
func (r *Registry) ForeignTopics() []string { return foreign(r.topic) }

// ForeignGroups returns those of single groups.
func (r *Registry) ForeignGroups() []string { return foreign(r.group) }

func foreign(defs map[string]*Def) []string {
	var names []string
	for name, d := range defs {
		if !d.Supported {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Foreign reports whether Kafka has, or had, the broker config with a name and chronik does not use
// it.
func (r *Registry) Foreign(name string) bool { return r.foreign[name] }

// Topic returns the topic config with a name, or nil if neither chronik nor Kafka has one; see
// Def.Supported.
func (r *Registry) Topic(name string) *Def { return r.topic[name] }

// Broker returns the broker config with a name, or nil if chronik reads none.
func (r *Registry) Broker(name string) *Def {
	if d := r.broker[name]; d != nil {
		return d
	}
	return r.listenerDef(name)
}

// CheckTopic returns why a topic may not have these overrides, as an *Error, or nil. It reports the
// first invalid config by name.
func (r *Registry) CheckTopic(set map[string]string) error {
	if err := checkSet(r.topic, set, "topic"); err != nil {
		return err
	}
	if err := r.checkFlush(set); err != nil {
		return err
	}
	if err := r.checkTier(set); err != nil {
		return err
	}
	return r.checkLags(set, minLag, maxLag)
}

// checkSet checks the configs of a topic or group against their definitions.
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
		if !d.Supported {
			return refused(strings.ToUpper(kind[:1])+kind[1:], name)
		}
	}
	return nil
}

// CheckDynamic returns why brokers may not have these dynamic configs, as an *Error, or nil: one
// broker, or every broker if all is true.
func (r *Registry) CheckDynamic(set map[string]string, all bool) error {
	var fixed, single []string
	names := slices.Sorted(maps.Keys(set))
	for _, name := range names {
		d := r.Broker(name)
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
		if err := r.Broker(name).Check(set[name]); err != nil {
			return err
		}
	}
	if len(single) > 0 {
		return &Error{Msg: fmt.Sprintf("Cannot update these configs at default cluster level, broker id must be specified: [%s]",
			strings.Join(single, ", "))}
	}
	if err := r.checkPerIP(set); err != nil {
		return err
	}
	return r.checkLags(set, brokerMinLag, brokerMaxLag)
}

// CheckStatic returns why a broker may not start with these configs, as an *Error, or nil.
func (r *Registry) CheckStatic(set map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		d := r.Broker(name)
		if d == nil {
			return r.unknownBroker(name)
		}
		if err := d.Check(set[name]); err != nil {
			return err
		}
	}
	if _, ok := set[TakesReplicas]; ok {
		return &Error{TakesReplicas, TakesReplicas + " is one of the cluster's metadata: remove it here, and run chronikctl broker drain ID"}
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
	if err := r.checkPerIP(set); err != nil {
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
