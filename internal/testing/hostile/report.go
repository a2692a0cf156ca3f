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

// Result is the result of one attack. Sizes of memory are of the process (resident), or of its live
// heap, which remains after a garbage collection, and the unread answers apart from it.
type Result struct {
	Attack Attack
	Sent   int64
	// Before, Peak and After are resident: before the attack, the maximum, and after its
	// connections were closed.
	Before, Peak, After int64
	// Held is the growth of the heap and the unread answers while the connections were open; Kept
	// is the rest of it when Waited had passed since they were closed.
	Held, Kept int64
	Waited     time.Duration
	// Disk is how much the data directory grew, and Scrape the size of a scrape of /metrics while
	// the connections were open.
	Disk, Scrape int64
	// Alone and During are the latencies of bystanders without the attack and during it; empty if
	// not measured. Control are those of other bystanders at the same time on a broker on the same
	// machine that is not attacked: the cost of a busy machine is not the broker's fault.
	Alone, During, Control map[string]Latency
	Outcomes               string
}

// Limits of what an attack makes the broker write for each byte that it sends, beyond files of
// fixed size, and of a scrape during the attack.
const (
	diskPerByte = 20
	maxDisk     = 64 << 20
	maxScrape   = 16 << 20
)

// Faults describes the limits that the attack broke. limit is the memory that the process may have;
// 0 means no limit.
func (r Result) Faults(limit int64) []string {
	var faults []string
	bad := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if limit > 0 && r.Peak > limit {
		bad("%s resident at the peak, limit %s", mib(r.Peak), mib(limit))
	}
	if grows := r.Attack.Grows; limit > 0 && grows > 0 && r.Peak-r.Before > grows {
		bad("%s more resident at the peak than before, limit %s", mib(r.Peak-r.Before), mib(grows))
	}
	if r.Held > r.Attack.Holds {
		bad("%s held during the attack, limit %s", mib(r.Held), mib(r.Attack.Holds))
	}
	if r.Kept > r.Attack.Keeps {
		bad("%s kept %v after its connections were closed, limit %s", mib(r.Kept), r.Waited.Round(time.Second), mib(r.Attack.Keeps))
	}
	if bound := maxDisk + diskPerByte*r.Sent; r.Disk > bound {
		bad("%s written to disk for %s sent, limit %s", mib(r.Disk), mib(r.Sent), mib(bound))
	}
	if r.Scrape > maxScrape {
		bad("a scrape of %s, limit %s", mib(r.Scrape), mib(maxScrape))
	}
	for _, name := range slices.Sorted(maps.Keys(r.During)) {
		alone, during, control := r.Alone[name], r.During[name], r.Control[name]
		if bound := Bound(alone, control); during.P99 > bound {
			bad(
				"a bystander's %s took %v (p99, limit %v; without attack %v, at a broker that is not attacked %v)",
				name,
				round(during.P99),
				round(bound),
				round(alone.P99),
				round(control.P99),
			)
		}
		if during.Failed > 0 {
			bad("a bystander's %s failed %d of %d times, first with: %v", name, during.Failed, during.N, during.Failure)
		}
	}
	return faults
}

// worst returns the bystander with the highest p99.
func (r Result) worst() string {
	worst := ""
	for _, name := range slices.Sorted(maps.Keys(r.During)) {
		if worst == "" || r.During[name].P99 > r.During[worst].P99 {
			worst = name
		}
	}
	return worst
}

// Table writes results, one per line.
func Table(w io.Writer, results []Result, limit int64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(
		t,
		"attack\tsent\tresident before, peak, after\theld\tkept (after)\tslowest bystander\tbefore p50, p99\tduring p50, p99\tnot attacked p50, p99\tfaults\toutcome",
	)
	for _, r := range results {
		worst := r.worst()
		alone, during, control := r.Alone[worst], r.During[worst], r.Control[worst]
		fmt.Fprintf(
			t,
			"%s\t%s\t%s, %s, %s\t%s\t%s (%v)\t%s\t%v, %v\t%v, %v\t%v, %v\t%d\t%s\n",
			r.Attack.Name,
			mib(r.Sent),
			mib(r.Before),
			mib(r.Peak),
			mib(r.After),
			mib(
				r.Held,
			),
			mib(r.Kept),
			r.Waited.Round(time.Second),
			worst,
			round(alone.P50),
			round(alone.P99),
			round(during.P50),
			round(during.P99),
			round(control.P50),
			round(control.P99),
			len(r.Faults(limit)),
			r.Outcomes,
		)
	}
	return t.Flush()
}

// Latencies writes the latencies of bystanders.
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

// round rounds to about three digits.
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
