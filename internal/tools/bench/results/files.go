package results

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench"
)

// CSV writes a line of names and a line for each flow of r, for collecting runs.
func CSV(w io.Writer, r *bench.Result) error {
	c, d := csv.NewWriter(w), Of(r)
	header := []string{
		"started",
		"clients",
		"mode",
		"flow",
		"topic",
		"concurrency",
		"pipeline",
		"message_size",
		"acks",
		"compression",
		"rate",
		"elapsed_seconds",
		"requests",
		"records",
		"failures",
		"payload_bytes",
		"wire_bytes",
		"requests_per_second",
		"records_per_second",
		"payload_bytes_per_second",
		"min_us",
		"mean_us",
		"p50_us",
		"p90_us",
		"p95_us",
		"p99_us",
		"p99_9_us",
		"p99_99_us",
		"max_us",
		"unanswered",
		"server_cpu_us_per_request",
		"lost",
		"duplicated",
		"fdatasyncs_per_second",
		"fdatasync_mean_us",
	}
	if err := c.Write(header); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	for _, f := range d.Flows {
		if err := c.Write(csvRow(d, f)); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// csvRow leaves unknown values empty.
func csvRow(d Document, f Flow) []string {
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	var wire, cpu, lost, duplicated, syncs, syncTime string
	if f.Wire != nil {
		wire = whole(*f.Wire)
	}
	if d.CPU != nil {
		cpu = number(d.CPU.PerRequest)
	}
	if d.Verify != nil {
		lost, duplicated = whole(d.Verify.Lost), whole(d.Verify.Duplicated)
	}
	if d.Against != nil && d.Against.Syncs != nil {
		syncs, syncTime = number(d.Against.Syncs.PerSecond), number(micros(d.Against.Syncs.Mean))
	}
	c, l := d.Config, f.Latency
	row := []string{d.Started.Format(time.RFC3339Nano), string(c.Clients), string(c.Mode), f.Name, c.Topic, strconv.Itoa(c.Concurrency),
		strconv.Itoa(c.Pipeline), strconv.Itoa(c.MessageSize), string(c.Acks), c.Compression, number(c.Rate),
		strconv.FormatFloat(
			d.Elapsed,
			'f',
			6,
			64,
		), whole(f.Requests), whole(f.Records), whole(bench.SumFailures(f.Failures)), whole(f.Payload), wire,
		number(f.RequestsPerSecond), number(f.RecordsPerSecond), number(f.PayloadPerSecond)}
	for _, v := range []float64{l.Min, l.Mean, l.P50, l.P90, l.P95, l.P99, l.P999, l.P9999, l.Max} {
		row = append(row, number(v))
	}
	return append(row, whole(f.Unanswered), cpu, lost, duplicated, syncs, syncTime)
}

// hdrTicks is the resolution of the percentile text: ticks for each halving of the distance to 100
// %, HdrHistogram's usual number.
const hdrTicks = 5

// HDR writes the latencies of each flow in HdrHistogram's percentile text, in milliseconds, which
// its plotters read. A flow begins with a comment of its name and clients; the plotters expect a
// file of one flow.
func HDR(w io.Writer, r *bench.Result) error {
	for _, f := range r.Flows() {
		if f.Latency == nil {
			continue
		}
		text := strings.ReplaceAll(ClientsText(r.Config), "\n", " ")
		if _, err := fmt.Fprintf(w, "#[%s, milliseconds; clients %s]\n", f.Name, text); err != nil {
			return fmt.Errorf("write percentiles: %w", err)
		}
		scale := float64(time.Millisecond / bench.LatencyUnit)
		if _, err := f.Latency.PercentilesPrint(w, hdrTicks, scale); err != nil {
			return fmt.Errorf("write percentiles: %w", err)
		}
	}
	return nil
}
