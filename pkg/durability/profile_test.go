package durability

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// The table of the design, number by number.
func TestBuiltinProfilesAreTheDocumentedOnes(t *testing.T) {
	want := []struct {
		name       string
		ack        Ack
		sync       Sync
		interval   time.Duration
		wait       time.Duration
		maxRecords int
		maxBytes   int64
	}{
		{"sync", Synced, SyncGroup, 0, 0, 10_000, 50_000_000},
		{"low", Synced, SyncGroup, 0, 2 * time.Millisecond, 500, 5_000_000},
		{"medium", Synced, SyncGroup, 0, 10 * time.Millisecond, 2_000, 15_000_000},
		{"high", Synced, SyncGroup, 0, 50 * time.Millisecond, 10_000, 50_000_000},
		{"ultra", Synced, SyncGroup, 0, 100 * time.Millisecond, 20_000, 100_000_000},
		{"interval", Written, SyncInterval, 50 * time.Millisecond, 0, 0, 0},
		{"os", Written, SyncOS, 0, 0, 0, 0},
	}
	got := Builtin()
	if len(got) != len(want) || got[0].Name != Default {
		t.Fatalf("%d profiles, first %q", len(got), got[0].Name)
	}
	for i, w := range want {
		p := got[i]
		if p.Name != w.name || p.Ack != w.ack || p.Sync != w.sync || p.Interval != w.interval ||
			p.MaxWait != w.wait || p.MaxRecords != w.maxRecords || p.MaxBytes != w.maxBytes || p.Policy != nil {
			t.Errorf("%+v, want %+v", p, w)
		}
		if p.Doc == "" {
			t.Errorf("%s does not say what it is for", p.Name)
		}
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestSetFindsProfilesAndNamesTheKnownOnes(t *testing.T) {
	extra := group("mine")
	s, err := NewSet(extra)
	must.OK(t, err)
	if p, err := s.Lookup("mine"); err != nil || p != extra {
		t.Errorf("Lookup: %v, %v", p, err)
	}
	if p, err := s.Lookup("ultra"); err != nil || p.MaxWait != 100*time.Millisecond {
		t.Errorf("Lookup: %v, %v", p, err)
	}
	var names []string
	for _, p := range Builtin() {
		names = append(names, p.Name)
	}
	_, err = s.Lookup("Sync")
	if !errors.Is(err, ErrUnknownProfile) || !strings.Contains(err.Error(), strings.Join(names, ", ")+", mine") {
		t.Errorf("the error does not list the known profiles: %v", err)
	}
	s.All()[0].Name = "changed"
	if s.All()[0].Name != "sync" || len(s.All()) != len(names)+1 {
		t.Error("a Set can be changed from outside")
	}
}

func TestSetRefusesWhatIsInvalidOrTaken(t *testing.T) {
	for _, c := range []struct {
		extra []Profile
		want  string
	}{
		{[]Profile{group("sync")}, "built in"},
		{[]Profile{group("a"), group("b"), group("a")}, "twice"},
		{[]Profile{{Name: "a"}}, `"a": max_records is 0: set it to`},
	} {
		if _, err := NewSet(c.extra...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// group is a valid profile that waits.
func group(name string) Profile {
	return Profile{Name: name, Ack: Synced, Sync: SyncGroup, MaxWait: time.Millisecond, MaxRecords: 10, MaxBytes: 10_000}
}

func TestValidateNamesCauseAndRemedy(t *testing.T) {
	interval := Profile{Name: "i", Ack: Written, Sync: SyncInterval, Interval: time.Second}
	system := Profile{Name: "o", Ack: Written, Sync: SyncOS}
	with := func(p Profile, change func(*Profile)) Profile { change(&p); return p }
	for _, c := range []struct {
		p           Profile
		cause, cure string // empty: valid
	}{
		{p: group("g")}, {p: interval}, {p: system},
		{p: group("a-0")}, {p: group(strings.Repeat("x", 64))},
		{group(""), "name", "rename"}, {group("Big"), "name", "rename"}, {group("a b"), "name", "rename"},
		{group(strings.Repeat("x", 65)), "name", "rename"},
		{with(group("g"), func(p *Profile) { p.Ack = 2 }), "ack is Ack(2)", "synced or written"},
		{with(group("g"), func(p *Profile) { p.Sync = 3 }), "sync is Sync(3)", "group, interval or os"},
		{with(interval, func(p *Profile) { p.Ack = Synced }), "no sync would precede", "set sync to group"},
		{with(group("g"), func(p *Profile) { p.Ack = Written }), "wait for a sync", "set ack to synced"},
		{p: with(interval, func(p *Profile) { p.Interval = time.Millisecond })},
		{p: with(interval, func(p *Profile) { p.Interval = time.Minute })},
		{with(interval, func(p *Profile) { p.Interval = time.Millisecond - 1 }), "interval is", "1ms to 1m0s"},
		{with(interval, func(p *Profile) { p.Interval = time.Minute + 1 }), "interval is", "1ms to 1m0s"},
		{with(system, func(p *Profile) { p.Interval = time.Second }), "interval is 1s but sync is os", "remove"},
		{with(system, func(p *Profile) { p.MaxWait = 1 }), "max_wait is set but sync is os", "remove"},
		{with(system, func(p *Profile) { p.MaxRecords = 1 }), "max_records is set", "remove"},
		{with(interval, func(p *Profile) { p.MaxBytes = 1 }), "max_bytes is set", "remove"},
		{with(interval, func(p *Profile) { p.Policy = counting{} }), "a policy is set", "remove"},
		{p: with(group("g"), func(p *Profile) { p.MaxWait = 10 * time.Second })},
		{with(group("g"), func(p *Profile) { p.MaxWait = 10*time.Second + 1 }), "max_wait is", "0 to 10s"},
		{with(group("g"), func(p *Profile) { p.MaxWait = -1 }), "max_wait is", "0 to 10s"},
		{p: with(group("g"), func(p *Profile) { p.MaxRecords = 10_000_000 })},
		{with(group("g"), func(p *Profile) { p.MaxRecords = 10_000_001 }), "max_records is", "1 to 10000000"},
		{with(group("g"), func(p *Profile) { p.MaxRecords = 0 }), "max_records is 0", "1 to 10000000"},
		{p: with(group("g"), func(p *Profile) { p.MaxBytes = 1024 })},
		{p: with(group("g"), func(p *Profile) { p.MaxBytes = 1 << 30 })},
		{with(group("g"), func(p *Profile) { p.MaxBytes = 1023 }), "max_bytes is", "1024"},
		{with(group("g"), func(p *Profile) { p.MaxBytes = 1<<30 + 1 }), "max_bytes is", "1024"},
		{p: with(group("g"), func(p *Profile) { p.Policy, p.MaxRecords, p.MaxBytes = counting{}, 0, 0 })},
		{with(group("g"), func(p *Profile) { p.Policy, p.MaxWait = counting{}, 0 }), "never be asked", "set max_wait"},
		{with(group("g"), func(p *Profile) { p.Policy, p.MaxBytes = counting{}, 7 }), "max_bytes is 7", "1024"},
	} {
		err := c.p.Validate()
		switch {
		case c.cause == "" && err != nil:
			t.Errorf("%+v: %v", c.p, err)
		case c.cause != "" && err == nil:
			t.Errorf("%+v is taken for valid", c.p)
		case c.cause != "" && !(strings.Contains(err.Error(), c.cause) && strings.Contains(err.Error(), c.cure)):
			t.Errorf("%v: should name %q and %q", err, c.cause, c.cure)
		case c.cause != "" && !strings.Contains(err.Error(), `"`+c.p.Name+`"`):
			t.Errorf("%v: does not name the profile", err)
		}
	}
}

func TestTextOfAckAndSync(t *testing.T) {
	for a, text := range map[Ack]string{Synced: "synced", Written: "written"} {
		b, err := a.MarshalText()
		var back Ack = 9
		if string(b) != text || err != nil || back.UnmarshalText(b) != nil || back != a {
			t.Errorf("%v: %q, %v, back %v", a, b, err, back)
		}
	}
	for s, text := range map[Sync]string{SyncGroup: "group", SyncInterval: "interval", SyncOS: "os"} {
		b, err := s.MarshalText()
		var back Sync = 9
		if string(b) != text || err != nil || back.UnmarshalText(b) != nil || back != s {
			t.Errorf("%v: %q, %v, back %v", s, b, err, back)
		}
	}
	if _, err := ParseAck("fsynced"); err == nil || !strings.Contains(err.Error(), `"fsynced": the known ones are synced, written`) {
		t.Error(err)
	}
	if _, err := ParseSync(""); err == nil || !strings.Contains(err.Error(), "group, interval, os") {
		t.Error(err)
	}
}
