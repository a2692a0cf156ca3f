package grouping

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// Table writes r as a table.
func (r *HeartbeatsResult) Table(w io.Writer) error {
	c := r.Config
	fmt.Fprintf(w, "%d groups of %d members, protocol %s, a heartbeat every %v; stable after %s\n", c.Groups, c.Members, c.Protocol,
		c.Heartbeat, r.Setup)
	t := results.Columns(w)
	fmt.Fprintln(t, "heartbeats/s\tp50\tp99\tp99.9\tmax ms\trejoins\tfailures\tserver CPU\tof a core\tper heartbeat\t")
	cpu, core := "unknown", "unknown"
	if used := r.Measured.CPUSeconds; used != nil {
		cpu, core = fmt.Sprintf("%.2f s", *used), fmt.Sprintf("%.2f %%", 100**used/r.Measured.Seconds)
	}
	fmt.Fprintf(t, "%.0f\t%s\t%d\t%d\t%s\t%s\t%s\t\n", float64(r.Heartbeats)/r.Measured.Seconds, times(r.Latency), r.Rejoins,
		bench.SumFailures(r.Failures), cpu, core, each(r.Measured, r.Heartbeats))
	return flush(t, w, r.Failures)
}

// Table writes r as a table.
func (r *RebalanceResult) Table(w io.Writer) error {
	fmt.Fprintf(w, "a group of %d members on %d partitions, protocol %s; time until it is stable\n", r.Config.Members,
		r.Config.Partitions, r.Config.Protocol)
	t := results.Columns(w)
	fmt.Fprintln(t, "all join\tone leaves\tone joins\t")
	fmt.Fprintf(t, "%s\t%s\t%s\t\n", r.Join, r.Leave, r.More)
	return t.Flush()
}

// Table writes r as a table.
func (r *CommitsResult) Table(w io.Writer) error {
	c := r.Config
	fmt.Fprintf(w, "%d connections, %d groups, %d offsets per request, closed loop\n", c.Concurrency, c.Groups, c.Each)
	t := results.Columns(w)
	fmt.Fprintln(t, "requests/s\toffsets/s\tp50\tp99\tp99.9\tmax ms\tfailures\tserver CPU per request\t")
	fmt.Fprintf(t, "%.0f\t%.0f\t%s\t%d\t%s\t\n", float64(r.Requests)/r.Measured.Seconds, float64(r.Offsets)/r.Measured.Seconds,
		times(r.Latency), bench.SumFailures(r.Failures), each(r.Measured, r.Requests))
	return flush(t, w, r.Failures)
}

// each returns the server's CPU time for each of n requests.
func each(s meter.Span, n int64) string {
	if s.CPUSeconds == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.1f us", 1e6**s.CPUSeconds/float64(max(n, 1)))
}

// times returns p50, p99, p99.9 and max in milliseconds.
func times(l results.Latency) string {
	return strings.Join(results.Millis(l.P50, l.P99, l.P999, l.Max), "\t")
}

// flush ends a table and lists failures below it.
func flush(t *tabwriter.Writer, w io.Writer, failures map[string]int64) error {
	err := t.Flush()
	for _, text := range results.Failures(failures) {
		_, e := fmt.Fprintln(w, text)
		err = errors.Join(err, e)
	}
	return err
}
