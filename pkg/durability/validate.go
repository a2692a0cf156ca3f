package durability

import (
	"fmt"
	"time"
)

// Bounds of the fields of a Profile.
const (
	maxName     = 64 // characters
	minInterval = time.Millisecond
	maxInterval = time.Minute
	maxMaxWait  = 10 * time.Second
	maxRecords  = 10_000_000
	minBytes    = 1 << 10
	maxBytes    = 1 << 30
)

// Validate checks the bounds that the fields document. The error states the cause and the remedy.
func (p Profile) Validate() error {
	if err := p.validate(); err != nil {
		return fmt.Errorf("durability profile %q: %w", p.Name, err)
	}
	return nil
}

func (p Profile) validate() error {
	if !validName(p.Name) {
		return fmt.Errorf("the name must be 1 to %d of the characters a-z, 0-9 and -: rename it", maxName)
	}
	switch {
	case p.Ack > Written:
		return fmt.Errorf("ack is %v: set it to synced or written", p.Ack)
	case p.Sync > SyncOS:
		return fmt.Errorf("sync is %v: set it to group, interval or os", p.Sync)
	case p.Ack == Synced && p.Sync != SyncGroup:
		return fmt.Errorf("ack is synced but sync is %v, so no sync would precede the acknowledgement: "+
			"set sync to group, or ack to written", p.Sync)
	case p.Ack == Written && p.Sync == SyncGroup:
		return fmt.Errorf("ack is written but sync is group, which makes every acknowledgement wait for a sync: " +
			"set ack to synced, or sync to interval or os")
	}
	if err := p.validateInterval(); err != nil {
		return err
	}
	if p.Sync != SyncGroup {
		return p.validateNoGroup()
	}
	return p.validateGroup()
}

func validName(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

func (p Profile) validateInterval() error {
	switch {
	case p.Sync != SyncInterval && p.Interval != 0:
		return fmt.Errorf("interval is %v but sync is %v, which has none: remove interval, or set sync to interval", p.Interval, p.Sync)
	case p.Sync == SyncInterval && (p.Interval < minInterval || p.Interval > maxInterval):
		return fmt.Errorf("interval is %v: set it to %v to %v", p.Interval, minInterval, maxInterval)
	}
	return nil
}

// validateNoGroup checks profiles whose acknowledgements wait for no sync.
func (p Profile) validateNoGroup() error {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"max_wait", p.MaxWait != 0}, {"max_records", p.MaxRecords != 0}, {"max_bytes", p.MaxBytes != 0}, {"a policy", p.Policy != nil},
	} {
		if f.set {
			return fmt.Errorf("%s is set but sync is %v, which forms no groups: remove it, or set sync to group and ack to synced", f.name,
				p.Sync)
		}
	}
	return nil
}

func (p Profile) validateGroup() error {
	unlimited := p.Policy != nil // with a policy the two limits are optional
	switch {
	case p.MaxWait < 0 || p.MaxWait > maxMaxWait:
		return fmt.Errorf("max_wait is %v: set it to 0 to %v", p.MaxWait, maxMaxWait)
	case p.Policy != nil && p.MaxWait == 0:
		return fmt.Errorf("it has a policy but max_wait is 0, so the policy would never be asked: set max_wait, at most %v", maxMaxWait)
	case (p.MaxRecords < 1 || p.MaxRecords > maxRecords) && !(unlimited && p.MaxRecords == 0):
		return fmt.Errorf("max_records is %d: set it to 1 to %d", p.MaxRecords, maxRecords)
	case (p.MaxBytes < minBytes || p.MaxBytes > maxBytes) && !(unlimited && p.MaxBytes == 0):
		return fmt.Errorf("max_bytes is %d: set it to %d (1 KiB) to %d (1 GiB)", p.MaxBytes, minBytes, maxBytes)
	}
	return nil
}
