package checks

import (
	"regexp"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// stopWords are in remedies that stop something. neverStops is what says the contrary, is about
// something else than a broker, or has its own order, as that of recovery.
var (
	stopWords  = regexp.MustCompile(`\b(?i:stop|stops|restart|restarts|shut|shuts)\b`)
	neverStops = regexp.MustCompile(`without a restart|do not stop another broker|stop no other broker|before (another broker is stopped|you stop)|` +
		`stop (producers|its members|these clients|what opens too many)|` +
		`if the former directories of .* still exist, shut these brokers down .*, shut down .* run .*, and the brokers that wait join`)
)

// checkStops compares the words of a remedy with what the finding says about them to programs.
func checkStops(t *testing.T, x *health.Finding) {
	t.Helper()
	if told := stopWords.FindString(neverStops.ReplaceAllString(x.Remedy, "")); (told != "") != x.Stops {
		t.Errorf("%s: a remedy says %q, and Stops is %v: %s", x.Check, told, x.Stops, x.Remedy)
	}
}

// examined is Examine with a comparison of the findings' words with their fields.
func examined(t *testing.T, all []Check, f *Facts) ([]health.Finding, []health.Examined) {
	t.Helper()
	findings, saw := Examine(all, f)
	for i := range findings {
		checkStops(t, &findings[i])
	}
	return findings, saw
}

// What to do about logs stops the broker or does not, by what is wrong with them.
func TestRemediesOfLogsSayWhatStops(t *testing.T) {
	for name, c := range map[string]struct {
		log   view.Log
		stops bool
	}{
		"damaged":                    {view.Log{}, true},
		"served elsewhere":           {view.Log{Elsewhere: true}, true},
		"opened again automatically": {view.Log{Reopens: true}, false},
		"opened again when it can":   {view.Log{Reopens: true, Full: true}, false},
		"made when there is a place": {view.Log{Retried: true}, false},
		"copied again":               {view.Log{Renews: true, Elsewhere: true}, false},
		"waits for the metadata":     {view.Log{Asks: true}, false},
	} {
		c.log.Topic, c.log.Offline, c.log.Error, c.log.Cause = "t", true, "x", "x"
		other := c.log
		other.Partition = 1
		for _, logs := range [][]view.Log{{c.log}, {c.log, other}} {
			findings, _ := examined(t, Checks(), &Facts{Serving: true, Partitions: logs})
			if len(findings) == 0 || findings[0].Stops != c.stops {
				t.Errorf("%s: %+v", name, findings)
			}
		}
	}
}

// Clients choose the names in remedies, so these say nothing about whether a broker is stopped.
func TestANameInARemedyStopsNoBroker(t *testing.T) {
	for _, name := range []string{"restart it", "stop the broker", "limit and restart:", "shut down"} {
		f := Facts{Serving: true, Slow: Slow{Rebalancing: []view.Group{{ID: name, State: "PreparingRebalance"}}},
			SlowShares: []view.SlowShare{{Group: name, Topic: "t", Failed: true}}}
		named := 0
		findings, _ := Examine(Checks(), &f)
		for _, x := range findings {
			if strings.Contains(x.Remedy, name) {
				named++
			}
			if x.Stops {
				t.Errorf("group %q: %+v", name, x)
			}
		}
		if named != 2 {
			t.Errorf("group %q: %d remedies name it: %+v", name, named, findings)
		}
	}
}
