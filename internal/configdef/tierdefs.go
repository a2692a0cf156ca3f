package configdef

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Names of configs whose values are compared.
const (
	RemoteEnable   = "remote.storage.enable"
	DeleteRemote   = "remote.log.delete.on.disable"
	noCopies       = "remote.log.copy.disable"
	localRetention = "local.retention.ms"
	localBytes     = "local.retention.bytes"
)

// asRetention is the value of local.retention.ms and local.retention.bytes that stands for those of
// retention.ms and retention.bytes.
const asRetention = -2

// Tiers has the settings of old records that are only in the object store, for all topics.
type Tiers struct {
	Interval   time.Duration // how often leaders copy records and remove copies
	FetchWait  time.Duration // how long a fetch waits for the store at most
	LookupWait time.Duration // how long ListOffsets does
	CacheBytes int64         // of what was read from the store
}

// tierDefs are the configs of topics whose old records are only in the object store (KIP-405).
func tierDefs() []*Def {
	return []*Def{
		topicDef(RemoteEnable, Boolean, "false",
			"Whether records are copied to the object store of archive.url. Then the local disks keep those of local.retention.ms "+
				"and local.retention.bytes, and what is not copied. retention.ms and retention.bytes are about all records. It cannot be true for a topic that is compacted."),
		topicDef(localRetention, Long, "-2",
			"The age in milliseconds at which records of a topic with remote.storage.enable are removed from the local disks, if the object "+
				"store has them. -2 means the value of retention.ms, -1 no limit by time.",
			from("log.local.retention.ms"), atLeast(asRetention)),
		topicDef(localBytes, Long, "-2",
			"The size in bytes to which the log of a partition with remote.storage.enable is reduced on the local disks, if the object store "+
				"has the records. -2 means the value of retention.bytes, -1 no limit by size.",
			from("log.local.retention.bytes"), atLeast(asRetention)),
		topicDef(noCopies, Boolean, "false",
			"Whether a topic with remote.storage.enable copies no further records to the object store. The existing copies stay, and can be read. "+
				"Then local.retention.ms and local.retention.bytes must be -2, or the values of retention.ms and retention.bytes."),
		topicDef(DeleteRemote, Boolean, "false",
			"Whether the records of a topic that are only in the object store are deleted when remote.storage.enable is set to false. "+
				"Without it, that is refused."),
	}
}

func brokerTierDefs() []*Def {
	return []*Def{
		brokerDef("remote.log.manager.task.interval.ms", Long, "30000",
			"The number of milliseconds between two rounds in which leaders copy records to the object store, and remove old ones there.",
			atLeast(1)),
		brokerDef("remote.fetch.max.wait.ms", Int, "500",
			"The maximum number of milliseconds for which a fetch waits for the object store. The transfer continues, and a later fetch gets the records.",
			atLeast(1)),
		brokerDef("remote.list.offsets.request.timeout.ms", Long, "30000",
			"The maximum number of milliseconds for which a search for a time waits for the object store.", atLeast(1)),
		brokerDef("archive.cache.bytes", Long, "67108864",
			"The maximum number of bytes of memory for records that were read from the object store. "+
				"One batch that is larger than half of it is kept in addition.", atLeast(16<<20)),
	}
}

func (f *reader) tiers() Tiers {
	return Tiers{
		Interval:   milliseconds(f.value("remote.log.manager.task.interval.ms").n),
		FetchWait:  milliseconds(f.value("remote.fetch.max.wait.ms").n),
		LookupWait: milliseconds(f.value("remote.list.offsets.request.timeout.ms").n),
		CacheBytes: f.value("archive.cache.bytes").n,
	}
}

// tier reads the settings of a topic's old records.
func (f *reader) tier(t *Topic) {
	t.Remote = f.value(RemoteEnable).b && !t.Compact // cleanup.policy may be the broker's default
	t.NoCopies = f.value(noCopies).b
	t.DropRemote = !f.value(RemoteEnable).b && f.value(DeleteRemote).b
	t.LocalRetention, t.LocalRetentionBytes = t.Retention, t.RetentionBytes
	if !t.Remote || t.NoCopies {
		return
	}
	if n := f.value(localRetention).n; n != asRetention {
		t.LocalRetention = shorter(milliseconds(n), t.Retention)
	}
	if n := f.value(localBytes).n; n != asRetention {
		t.LocalRetentionBytes = shorter(n, t.RetentionBytes)
	}
}

// shorter returns the smaller of two limits, of which a negative one is none.
func shorter[T int64 | time.Duration](a, b T) T {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// checkTier compares the configs of old records, as far as they are set. Like Kafka, it does so
// only with remote.storage.enable.
func (r *Registry) checkTier(set map[string]string) error {
	if !r.truth(set, RemoteEnable) {
		return nil
	}
	if policy, ok := set[CleanupPolicy]; ok {
		if v, err := r.topic[CleanupPolicy].parse(policy); err == nil && slices.Contains(v.list, "compact") {
			return &Error{RemoteEnable, "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."}
		}
	}
	for _, x := range [][2]string{{localBytes, "retention.bytes"}, {localRetention, "retention.ms"}} {
		if err := r.checkLocal(set, x[0], x[1]); err != nil {
			return err
		}
	}
	return nil
}

// checkLocal compares a limit of the local disks with that of all records.
func (r *Registry) checkLocal(set map[string]string, local, all string) error {
	number := func(name string) (n int64, ok bool) {
		text, ok := set[name]
		if !ok {
			return 0, false
		}
		v, err := r.topic[name].parse(text)
		return v.n, err == nil
	}
	n, ok := number(local)
	most, has := number(all)
	invalid := "Invalid value %d for configuration %s: Value must not be "
	switch {
	case !ok || n == asRetention:
	case has && most >= 0 && n == -1:
		return &Error{local, fmt.Sprintf(invalid+"-1 as %s value is set as %d.", n, local, all, most)}
	case has && most >= 0 && n > most:
		return &Error{local, fmt.Sprintf(invalid+"more than %s property value: %d", n, local, all, most)}
	case r.truth(set, noCopies) && (!has || n != most):
		return &Error{local, fmt.Sprintf("When `%s` is set to true, the `%s` and `%s` must be set to the identical value because "+
			"there will be no more logs copied to the remote storage.", noCopies, local, all)}
	}
	return nil
}

// truth returns the value of a boolean config of a topic; its default is false.
func (r *Registry) truth(set map[string]string, name string) bool {
	b, err := strconv.ParseBool(r.topic[name].Canonical(set[name]))
	return err == nil && b
}

// Remote reports whether a topic with these overrides has remote.storage.enable, and whether its
// records in the object store may be deleted when it has not any longer.
func (r *Registry) Remote(set map[string]string) (enabled, mayDelete bool) {
	return r.truth(set, RemoteEnable), r.truth(set, DeleteRemote)
}
