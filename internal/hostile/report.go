package hostile

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Result is what one attack did. Bytes of memory are the process's (resident) or of its live heap, which is what is left
// after a garbage collection.
type Result struct {
	Attack Attack
	Sent   int64
	// Before, Peak and After are resident: before the attack, at most, and when its connections had been closed.
	Before, Peak, After int64
	// Held is the live heap's growth while the connections were open, Kept what was left of it Waited after they were closed.
	Held, Kept int64
	Waited     time.Duration
	// Alone and Beside are what bystanders saw without the attack and during it; empty where that was not measured.
	// Control is what others like them saw during it at another broker on the same machine, which is not attacked: what a
	// busy machine costs is not the broker's.
	Alone, Beside, Control map[string]Latency
	Outcomes               string
}

// Faults are the bounds that the attack broke, in words. limit is the memory that the process may have; 0 is no bound.
func (r Result) Faults(limit int64) []string {
	var faults []string
	bad := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if limit > 0 && r.Peak > limit {
		bad("%s resident at most, of %s that the process may have", mib(r.Peak), mib(limit))
	}
	if r.Held > r.Attack.Holds {
		bad("%s held while it went on, bound %s", mib(r.Held), mib(r.Attack.Holds))
	}
	if r.Kept > r.Attack.Keeps {
		bad("%s kept %v after its connections were closed, bound %s", mib(r.Kept), r.Waited.Round(time.Second), mib(r.Attack.Keeps))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Beside)) {
		alone, beside, control := r.Alone[name], r.Beside[name], r.Control[name]
		if bound := Bound(alone, control); beside.P99 > bound {
			bad("a bystander's %s took %v (p99, bound %v; alone %v, at a broker that is not attacked %v)", name, round(beside.P99), round(bound),
				round(alone.P99), round(control.P99))
		}
		if beside.Failed > 0 {
			bad("a bystander's %s failed %d of %d times, first with: %v", name, beside.Failed, beside.N, beside.Failure)
		}
	}
	return faults
}

// worst is the bystander that suffered most.
func (r Result) worst() string {
	worst := ""
	for _, name := range slices.Sorted(maps.Keys(r.Beside)) {
		if worst == "" || r.Beside[name].P99 > r.Beside[worst].P99 {
			worst = name
		}
	}
	return worst
}

// Table writes results, a line for each.
func Table(w io.Writer, results []Result, limit int64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "attack\tsent\tresident before, peak, after\theld\tkept (after)\tslowest bystander\talone p50, p99\tbeside p50, p99\tnot attacked p50, p99\tbroken\twhat became of it")
	for _, r := range results {
		worst := r.worst()
		alone, beside, control := r.Alone[worst], r.Beside[worst], r.Control[worst]
		fmt.Fprintf(t, "%s\t%s\t%s, %s, %s\t%s\t%s (%v)\t%s\t%v, %v\t%v, %v\t%v, %v\t%d\t%s\n", r.Attack.Name, mib(r.Sent), mib(r.Before), mib(r.Peak), mib(r.After),
			mib(r.Held), mib(r.Kept), r.Waited.Round(time.Second), worst, round(alone.P50), round(alone.P99), round(beside.P50), round(beside.P99), round(control.P50), round(control.P99),
			len(r.Faults(limit)), r.Outcomes)
	}
	return t.Flush()
}

// Latencies writes what bystanders saw.
func Latencies(w io.Writer, seen map[string]Latency) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "request\tsent\tfailed\tp50\tp99")
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		l := seen[name]
		fmt.Fprintf(t, "%s\t%d\t%d\t%v\t%v\n", name, l.N, l.Failed, round(l.P50), round(l.P99))
	}
	return t.Flush()
}

func mib(n int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<20)), ".0") + " MiB"
}

// round rounds to three digits or so.
func round(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	default:
		return d.Round(10 * time.Microsecond)
	}
}
