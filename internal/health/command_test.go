package health_test

import (
	"testing"

	"github.com/chronik-io/chronik/internal/health"
)

func TestCommandsAreCopiedIntoAShell(t *testing.T) {
	for want, words := range map[string][]string{
		"`chronikctl group list`":                          {"chronikctl", "group", "list"},
		"`mkdir -p /srv/d`":                                {"mkdir", "-p", "/srv/d"},
		"`mkdir -p '/srv/my disk'`":                        {"mkdir", "-p", "/srv/my disk"},
		"`chronikctl group describe ''`":                   {"chronikctl", "group", "describe", ""},
		"`chronikctl group describe '; rm -r x'`":          {"chronikctl", "group", "describe", "; rm -r x"},
		"`chronikctl group describe 'it'\\''s'`":           {"chronikctl", "group", "describe", "it's"},
		"`chronikctl group describe 'größe'`":              {"chronikctl", "group", "describe", "größe"},
		"`chronikctl consume t -p 1 --from 2`":             {"chronikctl", "consume", "t", "-p", "1", "--from", "2"},
		"`chronikctl config set topic a retention.ms=7d`":  {"chronikctl", "config", "set", "topic", "a", "retention.ms=7d"},
		"`chronikctl group describe '$(id)'`":              {"chronikctl", "group", "describe", "$(id)"},
		"`chronikctl log verify --dir 'C:\\data'`":         {"chronikctl", "log", "verify", "--dir", `C:\data`},
		"`chronikctl log verify --config /etc/x/c_d.yaml`": {"chronikctl", "log", "verify", "--config", "/etc/x/c_d.yaml"},
	} {
		if got := health.Command(words...); got != want {
			t.Errorf("%q: %s, want %s", words, got, want)
		}
	}
}
