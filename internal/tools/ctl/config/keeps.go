package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/configdef"
)

// The topic configs that decide which records a log keeps, and their defaults in the configs of
// brokers.
const (
	retentionTime   = "retention.ms"
	retentionBytes  = "retention.bytes"
	cleanupPolicy   = "cleanup.policy"
	remoteStorage   = "remote.storage.enable"
	brokerRetention = "log." // the prefix of a default
)

// retentionKeys returns the topic configs that decide which records a log keeps.
func retentionKeys() []string {
	return []string{cleanupPolicy, remoteStorage, retentionBytes, retentionTime}
}

// retentionKey returns the name of a topic config at an entity: brokers have its default. It is
// empty if the entity has none.
func (e Entity) retentionKey(key string) string {
	switch e.Kind {
	case kmsg.ConfigResourceTypeTopic:
		return key
	case kmsg.ConfigResourceTypeBroker:
		return brokerRetention + key
	}
	return ""
}

// layer returns the source of the configs that are set on an entity.
func (e Entity) layer() string {
	switch {
	case e.Kind == kmsg.ConfigResourceTypeTopic:
		return source(kmsg.ConfigSourceDynamicTopicConfig)
	case e.Name == "":
		return source(kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	}
	return source(kmsg.ConfigSourceDynamicBrokerConfig)
}

// priority returns the place of a source among those of a topic's config, the highest first.
func priority(s string) int {
	return slices.Index([]string{source(kmsg.ConfigSourceDynamicTopicConfig), source(kmsg.ConfigSourceDynamicBrokerConfig),
		source(kmsg.ConfigSourceDynamicDefaultBrokerConfig), source(kmsg.ConfigSourceStaticBrokerConfig), byDefault}, s)
}

// after returns the value of a topic's config once the edit of an entity has been made, the topic
// itself or brokers. The present value stays if nothing is known about the next one.
func (d *Edit) after(e Entity, c *Described) *string {
	name, layer := e.retentionKey(c.Key), e.layer()
	value, set := d.values[name]
	if !set && !slices.Contains(d.Unset, name) {
		return c.Value
	}
	chain := slices.DeleteFunc(slices.Clone(c.Synonyms), func(s Synonym) bool { return s.Name == name && s.Source == layer })
	if set {
		at := slices.IndexFunc(chain, func(s Synonym) bool { return priority(s.Source) > priority(layer) })
		if at < 0 {
			at = len(chain)
		}
		chain = slices.Insert(chain, at, Synonym{Name: name, Value: &value, Source: layer})
	}
	if len(chain) == 0 {
		return c.Value
	}
	return scaled(c.Key, chain[0].Name, chain[0].Value)
}

// keeps is what a topic's configs let its logs keep.
type keeps struct {
	delete, compact bool
	ms, bytes       int64 // limits of cleanup.policy=delete; negative for none
	remote          bool  // also records that only the object store has
}

// readKeeps reads configs. A value that is not one is no limit: the broker refuses it.
func readKeeps(get func(key string) *string) keeps {
	number := func(key string) int64 {
		if v := get(key); v != nil {
			if n, err := strconv.ParseInt(*v, 10, 64); err == nil {
				return n
			}
		}
		return -1
	}
	k := keeps{ms: number(retentionTime), bytes: number(retentionBytes)}
	if v := get(remoteStorage); v != nil {
		k.remote = *v == "true"
	}
	if v := get(cleanupPolicy); v != nil {
		for _, policy := range strings.Split(*v, ",") {
			k.delete = k.delete || strings.TrimSpace(policy) == "delete"
			k.compact = k.compact || strings.TrimSpace(policy) == "compact"
		}
	}
	return k
}

// lessThan reports whether k may remove records that the configs before keep.
func (k keeps) lessThan(before keeps) bool {
	lower := func(limit, was int64) bool { return limit >= 0 && (was < 0 || limit < was || !before.delete) }
	return k.delete && (lower(k.ms, before.ms) || lower(k.bytes, before.bytes)) || k.compact && !before.compact || k.dropsRemote(before)
}

// dropsRemote reports whether the records that only the object store has are deleted.
func (k keeps) dropsRemote(before keeps) bool {
	return before.remote && !k.remote
}

// horizon returns the time before which records are removed. ok is false if none are because of
// their age.
func (k keeps) horizon(now time.Time) (at time.Time, ok bool) {
	if !k.delete || k.ms < 0 || k.ms > now.UnixMilli() {
		return time.Time{}, false
	}
	return now.Add(-time.Duration(k.ms) * time.Millisecond).Truncate(time.Millisecond), true
}

// held is what one partition holds.
type held struct {
	start, end int64
	local      int64                 // where the local disks begin; at most start: there
	byTime     func(time.Time) int64 // offset of the first record that is not older
	bytes      int64                 // of one replica; negative if unknown
}

// cut returns the offset below which retention removes records, at most: it removes whole segments.
// Which records the limit by size removes is estimated from their mean size, because brokers name
// the sizes of whole logs only. The estimate is wrong if older records are larger or smaller than
// newer ones. The question is there to show mistakes of orders of magnitude.
func (k keeps) cut(p *held, now time.Time) int64 {
	cut := p.start
	if !k.remote {
		cut = max(cut, p.local)
	}
	if at, ok := k.horizon(now); ok {
		cut = max(cut, p.byTime(at))
	}
	if k.delete && k.bytes >= 0 && p.bytes > k.bytes {
		cut = max(cut, p.start+int64(math.Ceil(float64(p.end-p.start)*float64(p.bytes-k.bytes)/float64(p.bytes))))
	}
	return min(cut, p.end)
}

// unitless returns the numbers of milliseconds in the edit that are the retention, suspicious, and
// have no unit, each with the reason why that is probably a mistake.
func (d *Edit) unitless() (all []string) {
	for _, s := range d.Set {
		key, value, _ := strings.Cut(s, "=")
		if strings.TrimPrefix(key, brokerRetention) != retentionTime {
			continue
		}
		if why := configdef.Unitless(key, value); why != "" {
			all = append(all, why)
		}
	}
	return all
}

// touchesRetention reports whether the edit has a config that decides which records logs keep.
func (d *Edit) touchesRetention() bool {
	touches := func(key string) bool {
		return slices.Contains(retentionKeys(), strings.TrimPrefix(key, brokerRetention))
	}
	for key := range d.values {
		if touches(key) {
			return true
		}
	}
	return slices.ContainsFunc(d.Unset, touches)
}
