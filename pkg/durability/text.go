package durability

import (
	"fmt"
	"slices"
	"strings"
)

func ackNames() []string { return []string{Synced: "synced", Written: "written"} }
func syncNames() []string {
	return []string{SyncGroup: "group", SyncInterval: "interval", SyncOS: "os"}
}

// String returns the name that ParseAck accepts.
func (a Ack) String() string { return nameOf("Ack", ackNames(), uint8(a)) }

// String returns the name that ParseSync accepts.
func (s Sync) String() string { return nameOf("Sync", syncNames(), uint8(s)) }

func nameOf(kind string, names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}

// ParseAck reads "synced" or "written".
func ParseAck(text string) (Ack, error) {
	i, err := parse("ack", ackNames(), text)
	return Ack(i), err
}

// ParseSync reads "group", "interval" or "os".
func ParseSync(text string) (Sync, error) {
	i, err := parse("sync", syncNames(), text)
	return Sync(i), err
}

func parse(what string, names []string, text string) (uint8, error) {
	i := slices.Index(names, text)
	if i < 0 {
		return 0, fmt.Errorf("unknown %s %q: the known ones are %s", what, text, strings.Join(names, ", "))
	}
	return uint8(i), nil
}

// MarshalText implements encoding.TextMarshaler.
func (a Ack) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseAck.
func (a *Ack) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAck(string(text))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (s Sync) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseSync.
func (s *Sync) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSync(string(text))
	return err
}

// String describes the profile in one line.
func (p Profile) String() string {
	s := fmt.Sprintf("%s: ack %v, sync %v", p.Name, p.Ack, p.Sync)
	switch p.Sync {
	case SyncInterval:
		s += fmt.Sprintf(" of %v", p.Interval)
	case SyncGroup:
		s += fmt.Sprintf(", waits at most %v, groups of at most %d records and %d bytes", p.MaxWait, p.MaxRecords, p.MaxBytes)
		if p.Policy != nil {
			s += ", closed by a policy"
		}
	}
	return s
}
