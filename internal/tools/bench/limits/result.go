package limits

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/results"
)

// Result is the result of `limits`; a part that was not requested is nil.
type Result struct {
	Measured time.Time   `json:"measured"`
	Echo     *EchoResult `json:"echo,omitempty"`
	Disk     *DiskResult `json:"disk,omitempty"`
}

// Table writes r as tables.
func (r *Result) Table(w io.Writer) error {
	var b strings.Builder
	if r.Echo != nil {
		if err := r.Echo.table(&b); err != nil {
			return err
		}
	}
	if r.Disk != nil {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if err := r.Disk.table(&b); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Text returns r as one line.
func (r *EchoResult) Text() string {
	return fmt.Sprintf("TCP echo: clients own, %d connections with %d in flight each, requests of %d B, responses of %d B, %.3f s measured",
		r.Config.Connections, r.Config.Pipeline, r.Request, r.Response, r.Elapsed)
}

func (r *EchoResult) table(w io.Writer) error {
	l := r.Flow.Latency
	fmt.Fprintln(w, r.Text())
	t := results.Columns(w)
	fmt.Fprintln(t, "requests/s\tp50\tp90\tp95\tp99\tp99.9\tmax ms\tserver CPU us\tclient CPU us\t")
	fmt.Fprintf(t, "%.0f\t%s\t%s\t%s\t\n", r.Flow.RequestsPerSecond, millis(l.P50, l.P90, l.P95, l.P99, l.P999, l.Max),
		cpuText(r.Server), cpuText(r.Client))
	return t.Flush()
}

// cpuText returns "unknown" if the system does not report the CPU time.
func cpuText(c *results.CPU) string {
	if c == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f", c.PerRequest)
}

func (r *DiskResult) table(w io.Writer) error {
	rate := ""
	if r.Config.Rate > 0 {
		rate = fmt.Sprintf(", %g per second", r.Config.Rate)
	}
	fmt.Fprintf(w, "%s in %s: one write, one sync%s, files of %d MiB; times in ms\n", r.Call, r.Config.Dir, rate, r.Config.FileSize>>20)
	t := results.Columns(w)
	fmt.Fprintln(t, "write\tblocks\tMB/s\tsync p50\tp90\tp99\tp99.9\tmax\twrite+sync p50\tp99\tp99.9\tsyncs\t")
	for _, row := range r.Rows {
		s := row.Sync
		fmt.Fprintf(t, "%g KiB\t%s\t%.1f\t%s\t%d\t\n", float64(row.Size)/1024, row.Pattern, row.BytesPerSecond/1e6,
			millis(s.P50, s.P90, s.P99, s.P999, s.Max, row.Both.P50, row.Both.P99, row.Both.P999), row.Syncs)
	}
	return t.Flush()
}

// millis formats microseconds as cells of milliseconds.
func millis(us ...float64) string { return strings.Join(results.Millis(us...), "\t") }
