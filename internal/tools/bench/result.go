package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is the outcome of a run.
type Result struct {
	// Config is the configuration of the run, with defaults filled in.
	Config Config `json:"config"`
	// Started is the wall clock time at the start of the measured interval.
	Started time.Time `json:"started"`
	// Elapsed is the measured interval: only outcomes that ended inside it count, and every rate is
	// divided by exactly this. It is shorter than Config.Duration only if the run was interrupted.
	Elapsed time.Duration `json:"elapsed_ns"`
	// Program is this program's version, which the caller sets.
	Program string `json:"program,omitempty"`
	// Against describes the broker and the machine.
	Against *Against `json:"against,omitempty"`
	// Received counts the records that the broker appended to the topic, by any producer, if
	// responses do not report it: it is nil except for acks=0. It has records and payload, and no
	// latency.
	Received *Flow `json:"received,omitempty"`
	// Produce, Consume and EndToEnd are nil if the mode has no such flow: produce has Produce;
	// consume has Consume; mixed has Produce and Consume; e2e has Produce and EndToEnd.
	Produce  *Flow `json:"produce,omitempty"`
	Consume  *Flow `json:"consume,omitempty"`
	EndToEnd *Flow `json:"end_to_end,omitempty"`
	// CPU is the server's CPU time over the measured interval; nil without Config.ServerPID.
	CPU *CPU `json:"cpu,omitempty"`
	// Verify is nil without Config.Verify.
	Verify *Verification `json:"verify,omitempty"`
	// Notes are sentences that a reader of the figures must know.
	Notes []string `json:"notes,omitempty"`
}

// Flow is one direction of a run over the measured interval.
type Flow struct {
	// Requests counts successful responses: error code 0 and, for a produce, a valid offset. With
	// acks=0 there are no responses and it counts written requests (see SentOnly). A kgo client
	// hides its requests; there it counts the Produce or Fetch responses of any outcome, and
	// Records shows the success. EndToEnd has no requests of its own: it counts records.
	Requests int64 `json:"requests"`
	// Records counts records that were acknowledged, fetched or received.
	Records int64 `json:"records"`
	// PayloadBytes is the size of the values of Records. If a consumer reads batch headers only
	// (see PayloadIsBatches), it is the size of the batches.
	PayloadBytes int64 `json:"payload_bytes"`
	// PayloadIsBatches reports whether PayloadBytes counts whole record batches.
	PayloadIsBatches bool `json:"payload_is_batches,omitempty"`
	// WireBytes is the size of this flow's requests and responses; 0 if WireKnown is false.
	WireBytes int64 `json:"wire_bytes"`
	WireKnown bool  `json:"wire_known"`
	// SentOnly reports whether successes are unconfirmed writes to the socket (acks=0):
	// Result.Received counts those that arrived.
	SentOnly bool `json:"sent_only,omitempty"`
	// Failures are counted by Kafka's error name ("NOT_LEADER_OR_FOLLOWER"), by "connection: reset"
	// and similar, or by "answer: …" for an invalid response. A failure is one request of a raw
	// client, one record of a kgo client.
	Failures map[string]int64 `json:"failures,omitempty"`
	// Unanswered counts operations that had been sent, or were due by the rate, and had no response
	// when the interval ended; the oldest had waited for Oldest. No other field shows a stall at
	// the end.
	Unanswered int64         `json:"unanswered"`
	Oldest     time.Duration `json:"oldest_unanswered_ns"`
	// WarmupFailures counts failures before the interval; no other field includes them.
	WarmupFailures int64 `json:"warmup_failures,omitempty"`
	// Latency has one sample for every success, in MICROSECONDS (see LatencyUnit), from 1 µs to one
	// hour with three significant digits. With a rate it counts from the intended time. The kind of
	// sample depends on the client: raw clients have one per request, kgo producers and EndToEnd
	// one per record, a kgo consumer one per poll.
	Latency *hdrhistogram.Histogram `json:"-"`
	// Series has one point for each step of the interval, 100 ms to 1 s depending on its length;
	// the last may be shorter.
	Series []Point `json:"series,omitempty"`
}

// LatencyUnit is the unit of the values of Flow.Latency.
const LatencyUnit = time.Microsecond

// Quantile returns the latency at q percent (0 to 100); 0 if nothing succeeded.
func (f *Flow) Quantile(q float64) time.Duration {
	if f.Latency == nil || f.Latency.TotalCount() == 0 {
		return 0
	}
	return time.Duration(f.Latency.ValueAtQuantile(q)) * LatencyUnit
}

// Max returns the largest latency, to the histogram's three digits.
func (f *Flow) Max() time.Duration {
	if f.Latency == nil || f.Latency.TotalCount() == 0 {
		return 0
	}
	return time.Duration(f.Latency.Max()) * LatencyUnit
}

// Failed returns the sum of Failures.
func (f *Flow) Failed() int64 { return SumFailures(f.Failures) }

// SumFailures returns the sum of the counts of all failures.
func SumFailures(failures map[string]int64) (sum int64) {
	for _, n := range failures {
		sum += n
	}
	return sum
}

// Point is one step of a flow.
type Point struct {
	// At is the end of the point, counted from the start of the interval.
	At time.Duration `json:"at_ns"`
	// Width is the length of the point.
	Width        time.Duration `json:"width_ns"`
	Requests     int64         `json:"requests"`
	Records      int64         `json:"records"`
	Failures     int64         `json:"failures"`
	PayloadBytes int64         `json:"payload_bytes"`
	P50          time.Duration `json:"p50_ns"`
	P99          time.Duration `json:"p99_ns"`
	Max          time.Duration `json:"max_ns"`
}

// CPU is the CPU time of the server's process over the measured interval.
type CPU struct {
	Seconds float64 `json:"seconds"`
	// PerRequest is Seconds divided by the successes of the run's flows: requests of raw clients,
	// records of kgo clients or if only received records count.
	PerRequest time.Duration `json:"per_request_ns"`
}

// Verification compares the acknowledged records with those in the topic, warm-up included.
type Verification struct {
	// Acknowledged is the number of acknowledged records, each of which must be found once.
	Acknowledged int64 `json:"acknowledged"`
	// Found counts the records of this run in the topic, duplicates included.
	Found int64 `json:"found"`
	// Lost counts acknowledged records that are missing.
	Lost int64 `json:"lost"`
	// Duplicated counts copies beyond the first, acknowledged or not.
	Duplicated int64 `json:"duplicated"`
	// Unacknowledged counts records that were sent and never acknowledged; the topic may have them.
	Unacknowledged int64 `json:"unacknowledged"`
	// Foreign counts records of other runs or other programs.
	Foreign int64 `json:"foreign"`
}

// Bad reports whether an acknowledged record is lost or a record is duplicated.
func (v *Verification) Bad() bool { return v.Lost > 0 || v.Duplicated > 0 }

// Names of flows, as Progress and reports use them.
const (
	FlowReceived = "received"
	FlowProduce  = "produce"
	FlowConsume  = "consume"
	FlowEndToEnd = "end-to-end"
)

// Progress is called from one goroutine after each point of the measured interval, once for each
// flow. It must not block, and may be nil.
type Progress func(flow string, p Point)

// NamedFlow is a flow with its name.
type NamedFlow struct {
	Name string
	*Flow
}

// Flows lists the flows of the run in a fixed order.
func (r *Result) Flows() []NamedFlow {
	var all []NamedFlow
	for _, f := range []NamedFlow{{FlowReceived, r.Received}, {FlowProduce, r.Produce}, {FlowConsume, r.Consume}, {FlowEndToEnd,
		r.EndToEnd}} {
		if f.Flow != nil {
			all = append(all, f)
		}
	}
	return all
}

// Succeeded reports whether every flow of the run had at least one success.
func (r *Result) Succeeded() bool {
	flows := r.Flows()
	for _, f := range flows {
		if f.Records == 0 {
			return false
		}
	}
	return len(flows) > 0
}
