package results

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/bench"
)

// ClientsText describes the kind and number of clients of c.
func ClientsText(c bench.Config) string {
	n := c.Concurrency
	switch c.Clients {
	case bench.ClientsOwn:
		if c.Pipeline > 1 {
			return fmt.Sprintf("own: %s, each with %d raw requests in flight", text.Count(n, "connection"), c.Pipeline)
		}
		return fmt.Sprintf("own: %s, each with one raw request in flight", text.Count(n, "connection"))
	case bench.ClientsShared:
		return fmt.Sprintf("shared: %s on one producer without linger, each waiting for its record's delivery", text.Count(n, "task"))
	case bench.ClientsBatched:
		return fmt.Sprintf("batched: %s of kgo with its defaults, without a limit of records in flight", text.Count(n, "client"))
	default:
		return fmt.Sprintf("%s: %d", c.Clients, n)
	}
}

// LoadText describes the load of c in a line, without its clients.
func LoadText(c bench.Config) string {
	parts := []string{string(c.Mode)}
	if c.Mode != bench.ModeConsume { // which has no size of its own
		parts = append(parts, fmt.Sprintf("%d B values", c.MessageSize), "acks="+string(c.Acks))
		if c.Compression != "" && c.Compression != "none" {
			parts = append(parts, c.Compression)
		}
	}
	if c.Rate > 0 {
		parts = append(parts, "open loop at "+strconv.FormatFloat(c.Rate, 'f', -1, 64)+"/s")
	} else {
		parts = append(parts, "closed loop")
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(", topic %s at %s", c.Topic, strings.Join(c.Brokers, ","))
}

// Table writes r as tables.
func Table(w io.Writer, r *bench.Result) error {
	var b strings.Builder
	d := Of(r)
	fmt.Fprintf(&b, "clients %s\n%s\n", d.Clients, LoadText(r.Config))
	for _, line := range AgainstText(d.Against, d.Program) {
		b.WriteString(line + "\n")
	}
	fmt.Fprintf(&b, "%.3f s measured from %s, after %v of warm-up\n\n", d.Elapsed, d.Started.Format(time.RFC3339), r.Config.Warmup)
	if err := rates(&b, d); err != nil {
		return err
	}
	b.WriteByte('\n')
	if err := latencies(&b, d); err != nil {
		return err
	}
	b.WriteByte('\n')
	for _, line := range remarks(d) {
		b.WriteString(line + "\n")
	}
	if len(remarks(d)) > 0 {
		b.WriteByte('\n')
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, m := range d.Legend {
		fmt.Fprintf(t, "%s\t%s\n", m.Name, m.Text)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Columns returns a writer of tables whose columns are aligned to the right.
func Columns(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func rates(w io.Writer, d Document) error {
	t := Columns(w)
	fmt.Fprintln(t, "throughput\trequests/s\trecords/s\tpayload MB/s\twire MB/s\tfailures\t")
	for _, f := range d.Flows {
		fmt.Fprintln(t, strings.Join(rateRow(f), "\t")+"\t")
	}
	return t.Flush()
}

// rateRow returns the rates of a flow.
func rateRow(f Flow) []string {
	wire := "unknown"
	if f.WirePerSecond != nil {
		wire = fmt.Sprintf("%.2f", *f.WirePerSecond/1e6)
	}
	requests := fmt.Sprintf("%.0f", f.RequestsPerSecond)
	if f.Name == bench.FlowReceived {
		requests, wire = "-", "-" // its requests are those of the sender
	}
	return []string{f.Name, requests, fmt.Sprintf("%.0f", f.RecordsPerSecond),
		fmt.Sprintf("%.2f", f.PayloadPerSecond/1e6), wire, fmt.Sprint(bench.SumFailures(f.Failures))}
}

func latencies(w io.Writer, d Document) error {
	t := Columns(w)
	fmt.Fprintln(t, "latency, ms\tmin\tp50\tp90\tp95\tp99\tp99.9\tmax\tmean\tsamples\t")
	for _, f := range d.Flows {
		if f.Name != bench.FlowReceived {
			fmt.Fprintln(t, strings.Join(latencyRow(f), "\t")+"\t")
		}
	}
	return t.Flush()
}

// latencyRow returns dashes if there are no samples.
func latencyRow(f Flow) []string {
	l := f.Latency
	values := Millis(l.Min, l.P50, l.P90, l.P95, l.P99, l.P999, l.Max, l.Mean)
	if l.Count == 0 {
		for i := range values {
			values[i] = "-"
		}
	}
	return append(append([]string{f.Name}, values...), fmt.Sprint(l.Count))
}

// Millis formats microseconds as milliseconds.
func Millis(us ...float64) []string {
	out := make([]string, len(us))
	for i, v := range us {
		out[i] = fmt.Sprintf("%.3f", v/1000)
	}
	return out
}

// Failures describes counted errors, the most frequent first.
func Failures(counts map[string]int64) []string {
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	for i, name := range names {
		names[i] = fmt.Sprintf("failed %d times: %s", counts[name], name)
	}
	return names
}

// remarks returns sentences on facts that the tables do not show. The run's notes explain the kind
// of load.
func remarks(d Document) []string {
	var out []string
	for _, f := range d.Flows {
		for _, text := range Failures(f.Failures) {
			out = append(out, f.Name+" "+text)
		}
		if f.stalled(d.Config) {
			out = append(
				out,
				fmt.Sprintf("%s: %d without a response at the end, the oldest for %s ms", f.Name, f.Unanswered, Millis(f.Oldest)[0]),
			)
		}
	}
	if d.CPU != nil {
		out = append(out, fmt.Sprintf("server CPU %.2f s, %.2f us per success", d.CPU.Seconds, d.CPU.PerRequest))
	}
	if d.Verify != nil {
		out = append(out, VerifyText(d.Verify))
	}
	return append(out, d.Notes...)
}

// stalled reports whether more operations were unanswered at the end than a closed loop always has,
// or one for longer than any response took.
func (f Flow) stalled(c bench.Config) bool {
	return f.Unanswered > int64(c.Concurrency)*int64(max(c.Pipeline, 1)) || f.Unanswered > 0 && f.Oldest > f.Latency.Max
}

// VerifyText describes the verification in a line.
func VerifyText(v *bench.Verification) string {
	verdict := "verified: the topic has every acknowledged record once"
	if v.Bad() {
		verdict = "VERIFICATION FAILED"
	}
	return fmt.Sprintf("%s (%d acknowledged, %d found, %d lost, %d duplicated, %d sent without an acknowledgement, %d of others)", verdict,
		v.Acknowledged, v.Found, v.Lost, v.Duplicated, v.Unacknowledged, v.Foreign)
}
