package results

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench"
)

// Document is a result in JSON: recorded values, rates over the measured interval, and quantiles in
// microseconds.
type Document struct {
	// Clients describes the clients in words.
	Clients string       `json:"clients"`
	Config  bench.Config `json:"config"`
	// Program is chronik-bench's version. Against describes the broker and the machine.
	Program string              `json:"program,omitempty"`
	Against *bench.Against      `json:"against,omitempty"`
	Started time.Time           `json:"started"`
	Elapsed float64             `json:"elapsed_seconds"`
	Flows   []Flow              `json:"flows"`
	CPU     *CPU                `json:"server_cpu,omitempty"`
	Verify  *bench.Verification `json:"verify,omitempty"`
	// Notes are sentences that a reader of the figures must know. Legend explains the figures.
	Notes  []string  `json:"notes,omitempty"`
	Legend []Meaning `json:"legend"`
}

// Flow is one direction of the load.
type Flow struct {
	// Name is received, produce, consume or end-to-end. bench.Flow explains the counts.
	Name     string           `json:"name"`
	Requests int64            `json:"requests"`
	Records  int64            `json:"records"`
	Failures map[string]int64 `json:"failures"`
	// Unanswered operations were sent or due when the interval ended; the oldest had waited for
	// Oldest microseconds.
	Unanswered int64   `json:"unanswered"`
	Oldest     float64 `json:"oldest_unanswered_us"`
	// SentOnly reports whether successes are unconfirmed (acks=0).
	SentOnly bool `json:"sent_only"`
	// Payload is the size of values in bytes, or of whole batches if PayloadIsBatches is true. Wire
	// is the size of all traffic, nil if it is unknown.
	Payload          int64  `json:"payload_bytes"`
	PayloadIsBatches bool   `json:"payload_is_batches"`
	Wire             *int64 `json:"wire_bytes"`

	RequestsPerSecond float64  `json:"requests_per_second"`
	RecordsPerSecond  float64  `json:"records_per_second"`
	PayloadPerSecond  float64  `json:"payload_bytes_per_second"`
	WirePerSecond     *float64 `json:"wire_bytes_per_second"`

	Latency Latency `json:"latency"`
	Series  []Point `json:"series,omitempty"`
}

// Point is a part of the measured interval of length Width that ends At seconds after the
// interval's start.
type Point struct {
	At       float64 `json:"at_seconds"`
	Width    float64 `json:"width_seconds"`
	Requests int64   `json:"requests"`
	Records  int64   `json:"records"`
	Failures int64   `json:"failures"`
	Payload  int64   `json:"payload_bytes"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Max      float64 `json:"max_us"`
}

// CPU is the server's CPU time over the measured interval.
type CPU struct {
	Seconds    float64 `json:"seconds"`
	PerRequest float64 `json:"per_request_us"`
}

// Of returns r as a document.
func Of(r *bench.Result) Document {
	d := Document{Clients: ClientsText(r.Config), Config: r.Config, Started: r.Started, Elapsed: r.Elapsed.Seconds(),
		Verify: r.Verify, Notes: r.Notes,
		Program: r.Program, Against: r.Against, Legend: legend(r.Config)}
	for _, f := range r.Flows() {
		d.Flows = append(d.Flows, FlowOf(f, r.Elapsed))
	}
	if r.CPU != nil {
		d.CPU = &CPU{Seconds: r.CPU.Seconds, PerRequest: micros(r.CPU.PerRequest)}
	}
	return d
}

// Flow returns the flow with this name, nil if there is none.
func (d Document) Flow(name string) *Flow {
	for i := range d.Flows {
		if d.Flows[i].Name == name {
			return &d.Flows[i]
		}
	}
	return nil
}

// FlowOf returns f, measured over elapsed.
func FlowOf(f bench.NamedFlow, elapsed time.Duration) Flow {
	s := Flow{
		Name:             f.Name,
		Requests:         f.Requests,
		Records:          f.Records,
		Failures:         f.Failures,
		Unanswered:       f.Unanswered,
		Oldest:           micros(f.Oldest),
		SentOnly:         f.SentOnly,
		Payload:          f.PayloadBytes,
		PayloadIsBatches: f.PayloadIsBatches,
		RequestsPerSecond: per(
			f.Requests,
			elapsed,
		),
		RecordsPerSecond: per(f.Records, elapsed),
		PayloadPerSecond: per(f.PayloadBytes, elapsed),
		Latency:          LatencyOf(f.Latency, bench.LatencyUnit),
	}
	if s.Failures == nil {
		s.Failures = map[string]int64{}
	}
	if f.WireKnown {
		rate := per(f.WireBytes, elapsed)
		s.Wire, s.WirePerSecond = &f.WireBytes, &rate
	}
	for _, p := range f.Series {
		s.Series = append(
			s.Series,
			Point{
				At:       p.At.Seconds(),
				Width:    p.Width.Seconds(),
				Requests: p.Requests,
				Records:  p.Records,
				Failures: p.Failures,
				Payload:  p.PayloadBytes,
				P50:      micros(p.P50),
				P99:      micros(p.P99),
				Max:      micros(p.Max),
			},
		)
	}
	return s
}

// per returns n over elapsed, per second; 0 if elapsed is 0.
func per(n int64, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(n) / elapsed.Seconds()
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// JSON writes r as one indented document.
func JSON(w io.Writer, r *bench.Result) error { return WriteJSON(w, Of(r)) }

// WriteJSON writes any document of this tool, indented.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
