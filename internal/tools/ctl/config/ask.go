package config

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Described is a config of an entity.
type Described struct {
	Key       string    `json:"key"`
	Value     *string   `json:"value"` // nil without a value, and for secrets
	Source    string    `json:"source"`
	Default   *string   `json:"default"`
	Type      string    `json:"type"`
	ReadOnly  bool      `json:"readOnly"`
	Sensitive bool      `json:"sensitive"`
	Doc       string    `json:"documentation,omitempty"`
	Synonyms  []Synonym `json:"synonyms"` // where the value is looked up, highest priority first
}

// Synonym is one of the places where a config's value may come from.
type Synonym struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

// fetch returns all configs of an entity, sorted by key.
func fetch(ctx context.Context, a *app.App, e Entity) ([]Described, error) {
	cl, err := a.Requests(ctx)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return fetchOver(ctx, cl, e)
}

func fetchOver(ctx context.Context, cl *kgo.Client, e Entity) ([]Described, error) {
	all, err := describeAll(ctx, cl, []Entity{e}, nil)
	return all[e], err
}

// describeAll returns the configs of entities, sorted by key, or only those with some keys.
func describeAll(ctx context.Context, to kmsg.Requestor, entities []Entity, keys []string) (map[Entity][]Described, error) {
	answers, err := request(ctx, to, entities, keys, keys == nil)
	if err != nil {
		return nil, err
	}
	found := map[Entity][]Described{}
	for _, answer := range answers {
		if err := refusedAnswer(&answer); err != nil {
			return nil, err
		}
		all := []Described{}
		for i := range answer.Configs {
			all = append(all, described(&answer.Configs[i]))
		}
		sorts.Sort(all, func(x, y Described) int { return cmp.Compare(x.Key, y.Key) })
		found[Entity{answer.ResourceType, answer.ResourceName}] = all
	}
	return found, nil
}

// request asks for the configs of entities, or only for those with some keys, with their
// documentation if it is wanted. The answer has each entity, perhaps with an error.
func request(ctx context.Context, to kmsg.Requestor, entities []Entity, keys []string, documented bool) (
	[]kmsg.DescribeConfigsResponseResource, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeDocumentation, req.IncludeSynonyms = documented, true
	for _, e := range entities {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = e.Kind, e.Name, keys
		req.Resources = append(req.Resources, r)
	}
	what := "describe the configs of " + text.Plural(len(entities), "entity", "entities")
	if len(entities) == 1 {
		what = "describe " + entities[0].String()
	}
	resp, err := req.RequestWith(ctx, to)
	if err != nil {
		return nil, app.Refused(what, err, "")
	}
	if len(resp.Resources) != len(entities) {
		return nil, fmt.Errorf("%s: the broker answered for %d entities instead of %d", what, len(resp.Resources), len(entities))
	}
	return resp.Resources, nil
}

// refusedAnswer returns the error of one entity in an answer, nil if the answer has its configs.
func refusedAnswer(answer *kmsg.DescribeConfigsResponseResource) error {
	e := Entity{answer.ResourceType, answer.ResourceName}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return app.Refused("describe "+e.String(), app.Needs(err, e.right("describe-configs")), app.OrEmpty(answer.ErrorMessage))
	}
	return nil
}

// Configs are the values of an entity, and which of them a default of all brokers sets.
type Configs struct {
	Values
	defaults []string
}

// ReadAll returns the configs of entities of one kind by their names, and the errors of those that
// the broker refuses: a missing right is about one entity.
func ReadAll(ctx context.Context, to kmsg.Requestor, entities []Entity) (found map[string]Configs, failed map[string]error, err error) {
	found, failed = map[string]Configs{}, map[string]error{}
	if len(entities) == 0 {
		return found, failed, nil
	}
	for some := range slices.Chunk(entities, topicsAtOnce) {
		answers, err := request(ctx, to, some, nil, false)
		if err != nil {
			return nil, nil, err
		}
		for _, answer := range answers {
			e := Entity{answer.ResourceType, answer.ResourceName}
			if err := refusedAnswer(&answer); err != nil {
				failed[e.Name] = err
				continue
			}
			v := Configs{Values: Values{}}
			for i := range answer.Configs {
				c := &answer.Configs[i]
				v.Values[c.Name] = app.OrEmpty(c.Value)
				if c.Source == kmsg.ConfigSourceDynamicDefaultBrokerConfig || c.Source == kmsg.ConfigSourceStaticBrokerConfig {
					v.defaults = append(v.defaults, c.Name)
				}
			}
			found[e.Name] = v
		}
	}
	return found, failed, nil
}

func described(c *kmsg.DescribeConfigsResponseResourceConfig) Described {
	d := Described{Key: c.Name, Value: c.Value, Source: source(c.Source), Type: strings.ToLower(c.ConfigType.String()),
		ReadOnly: c.ReadOnly, Sensitive: c.IsSensitive, Doc: app.OrEmpty(c.Documentation), Synonyms: []Synonym{}}
	if c.Source == kmsg.ConfigSourceDefaultConfig {
		d.Default = c.Value
	}
	for _, s := range c.ConfigSynonyms {
		d.Synonyms = append(d.Synonyms, Synonym{s.Name, s.Value, source(s.Source)})
		if s.Source == kmsg.ConfigSourceDefaultConfig && c.Source != kmsg.ConfigSourceDefaultConfig {
			d.Default = scaled(c.Name, s.Name, s.Value)
		}
	}
	return d
}

// scaled converts a synonym's value to the unit of the config: log.retention.hours provides the
// default of retention.ms.
func scaled(key, synonym string, value *string) *string {
	unit := int64(1)
	switch {
	case !strings.HasSuffix(key, ".ms"):
	case strings.HasSuffix(synonym, ".hours"):
		unit = 3_600_000
	case strings.HasSuffix(synonym, ".minutes"):
		unit = 60_000
	}
	if value == nil || unit == 1 {
		return value
	}
	n, err := strconv.ParseInt(*value, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return value
	}
	s := strconv.FormatInt(n*unit, 10)
	return &s
}

// source names where a value is set.
func source(s kmsg.ConfigSource) string {
	switch s {
	case kmsg.ConfigSourceDynamicTopicConfig:
		return "topic"
	case kmsg.ConfigSourceDynamicBrokerConfig:
		return "broker"
	case kmsg.ConfigSourceDynamicDefaultBrokerConfig:
		return "all brokers"
	case kmsg.ConfigSourceStaticBrokerConfig:
		return "broker's start"
	case kmsg.ConfigSourceDynamicBrokerLoggerConfig:
		return "logger"
	case kmsg.ConfigSourceGroupConfig:
		return "group"
	case kmsg.ConfigSourceClientMetricsConfig:
		return "subscription"
	case kmsg.ConfigSourceDefaultConfig:
		return byDefault
	}
	return strings.ToLower(strings.ReplaceAll(s.String(), "_", " "))
}

// byDefault is the source of a default value.
const byDefault = "default"

// choose returns the configs with these keys, or all without keys.
func choose(e Entity, all []Described, keys []string) ([]Described, error) {
	if len(keys) == 0 {
		return all, nil
	}
	var some []Described
	var names []string
	synonyms := map[string]string{}
	for _, d := range all {
		names = append(names, d.Key)
		for _, s := range d.Synonyms {
			synonyms[s.Name] = d.Key
		}
	}
	for _, k := range keys {
		i := slices.Index(names, k)
		if i < 0 {
			return nil, fmt.Errorf("%v has no config %q; %s", e, k, suggest(k, names, synonyms))
		}
		some = append(some, all[i])
	}
	return some, nil
}

// suggest returns a hint with the configs that may be meant: the one that has the key as a synonym,
// as retention.ms has log.retention.hours, else those that contain the key, else the closest one,
// else those that share a part with it. Of these, those come first of which the key has all parts
// but the last, which often is a unit.
func suggest(key string, names []string, synonyms map[string]string) string {
	if one := synonyms[key]; one != "" {
		return "did you mean " + one + "?"
	}
	var near, parts []string
	for _, n := range names {
		if strings.Contains(n, key) {
			near = append(near, n)
		}
		if slices.ContainsFunc(strings.Split(key, "."), func(part string) bool { return len(part) > 3 && strings.Contains(n, part) }) {
			parts = append(parts, n)
		}
	}
	if one, ok := text.Closest(key, names); ok && len(near) == 0 {
		near = []string{one}
	}
	if len(near) == 0 {
		near = parts
		sorts.SortStable(near, func(x, y string) int { return cmp.Compare(apart(key, x), apart(key, y)) })
	}
	if len(near) == 0 || len(near) > 8 {
		return "chronikctl config get without a key lists all configs"
	}
	return "did you mean " + strings.Join(near, ", ") + "?"
}

// apart returns 0 if key contains name without its last part, else 1.
func apart(key, name string) int {
	if at := strings.LastIndexByte(name, '.'); at > 0 && strings.Contains(key, name[:at]) {
		return 0
	}
	return 1
}
