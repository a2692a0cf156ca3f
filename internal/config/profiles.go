package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/pkg/durability"
)

// profileKeys returns the keys of an entry of `profiles:`.
func profileKeys() []string {
	return []string{"doc", "ack", "sync", "interval", "max_wait", "max_records", "max_bytes"}
}

// profile reads one custom profile. Fields that it leaves out are those of profile sync,
// except that sync is os if ack is written.
func (l *loader) profile(source, name string, v any) (durability.Profile, bool) {
	where := keyProfiles + "." + name
	before := len(l.errs)
	m := l.fields(source, where, v, profileKeys())
	defaults := durability.Builtin()[0] // the default profile, sync
	p := durability.Profile{Name: name, Doc: m["doc"]}
	take := func(key string, parse func(string) error) {
		if value, given := m[key]; given {
			if err := parse(value); err != nil {
				l.add(source, where+"."+key, err.Error())
			}
		}
	}
	take("ack", func(v string) (err error) { p.Ack, err = durability.ParseAck(v); return err })
	if p.Ack == durability.Written {
		p.Sync = durability.SyncOS
	}
	take("sync", func(v string) (err error) { p.Sync, err = durability.ParseSync(v); return err })
	if p.Sync == durability.SyncGroup {
		p.MaxRecords, p.MaxBytes = defaults.MaxRecords, defaults.MaxBytes
	}
	take("interval", func(v string) (err error) { p.Interval, err = parseWait(v); return err })
	take("max_wait", func(v string) (err error) { p.MaxWait, err = parseWait(v); return err })
	take("max_bytes", func(v string) (err error) { p.MaxBytes, err = parseSize(v); return err })
	take("max_records", func(v string) (err error) {
		if p.MaxRecords, err = strconv.Atoi(v); err != nil {
			return fmt.Errorf("%q is not a whole number; write for example 5000", v)
		}
		return nil
	})
	if len(l.errs) == before {
		if err := p.Validate(); err != nil {
			l.add(source, where, strings.TrimPrefix(err.Error(), fmt.Sprintf("durability profile %q: ", name)))
		}
	}
	return p, len(l.errs) == before
}
