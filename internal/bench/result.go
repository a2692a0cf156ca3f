package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run measured.
type Result struct {
	// Config is the run as it was made, defaults filled in.
	Config Config `json:"config"`
	// Started is the wall clock at the beginning of the measured interval.
	Started time.Time `json:"started"`
	// Elapsed is the measured interval: what ended inside it is counted, nothing
	// else, and every rate is divided by exactly this. It is shorter than
	// Config.Duration only when the run was cut short.
	Elapsed time.Duration `json:"elapsed_ns"`
	// Program is this program's version, which its caller knows.
	Program string `json:"program,omitempty"`
	// Against is what was measured, and where.
	Against *Against `json:"against,omitempty"`
	// Received is what the broker appended to the topic, by any producer, where answers do
	// not say it: nil but for acks=0. It has records and payload, and no latency.
	Received *Flow `json:"received,omitempty"`
	// Produce, Consume and EndToEnd are nil where the mode has none: produce has
	// Produce; consume has Consume; mixed has Produce and Consume; e2e has
	// Produce and EndToEnd.
	Produce  *Flow `json:"produce,omitempty"`
	Consume  *Flow `json:"consume,omitempty"`
	EndToEnd *Flow `json:"end_to_end,omitempty"`
	// CPU is what the server used over the measured interval; nil without
	// Config.ServerPID.
	CPU *CPU `json:"cpu,omitempty"`
	// Verify is nil without Config.Verify.
	Verify *Verification `json:"verify,omitempty"`
	// Notes say in a sentence each what a reader of the figures must know.
	Notes []string `json:"notes,omitempty"`
}

// Flow is one direction of a run over the measured interval.
type Flow struct {
	// Requests counts successful answers: error code 0 and, for a produce, a
	// valid offset. With acks=0 nothing answers and it counts requests written
	// (see SentOnly). A kgo client hides its requests; there it counts the
	// Produce or Fetch answers that arrived, whatever they said: success is told
	// by Records. EndToEnd has no requests of its own: it counts records.
	Requests int64 `json:"requests"`
	// Records counts records acknowledged, fetched or received.
	Records int64 `json:"records"`
	// PayloadBytes are the bytes of the values of Records. Where a consumer reads
	// batch headers only (see PayloadIsBatches) they are the batches' bytes.
	PayloadBytes int64 `json:"payload_bytes"`
	// PayloadIsBatches says that PayloadBytes counts whole record batches.
	PayloadIsBatches bool `json:"payload_is_batches,omitempty"`
	// WireBytes are the bytes of this flow's requests and answers, both
	// directions; 0 where WireKnown is false.
	WireBytes int64 `json:"wire_bytes"`
	WireKnown bool  `json:"wire_known"`
	// SentOnly says that successes are writes to the socket that nothing
	// confirmed (acks=0): Result.Received has what came of them, sockets hold the rest.
	SentOnly bool `json:"sent_only,omitempty"`
	// Failures counts by Kafka's error name ("NOT_LEADER_OR_FOLLOWER"), by
	// "connection: reset" and its kin, or by "answer: …" for an answer that is
	// none. A failure is one request of the raw client, one record of a kgo one.
	Failures map[string]int64 `json:"failures,omitempty"`
	// Unanswered counts what had been sent, or was due by the rate, and had no
	// answer when the interval ended; the oldest had waited Oldest. A stall at
	// the end is seen here and nowhere else.
	Unanswered int64         `json:"unanswered"`
	Oldest     time.Duration `json:"oldest_unanswered_ns"`
	// WarmupFailures counts failures before the interval; they are in nothing else.
	WarmupFailures int64 `json:"warmup_failures,omitempty"`
	// Latency holds one sample for every success, in MICROSECONDS (see
	// LatencyUnit), from 1 µs to one hour with three digits. With a rate it is
	// counted from the intended time. What a sample is depends on the client:
	// raw clients have one per request, kgo producers and EndToEnd one per
	// record, a kgo consumer one per poll.
	Latency *hdrhistogram.Histogram `json:"-"`
	// Series has one point for each step of the interval, 100 ms to 1 s depending on its
	// length; the last may be shorter.
	Series []Point `json:"series,omitempty"`
}

// LatencyUnit is the unit of the values of Flow.Latency.
const LatencyUnit = time.Microsecond

// Quantile is the latency at q percent (0 to 100); 0 when nothing succeeded.
func (f *Flow) Quantile(q float64) time.Duration {
	if f.Latency == nil || f.Latency.TotalCount() == 0 {
		return 0
	}
	return time.Duration(f.Latency.ValueAtQuantile(q)) * LatencyUnit
}

// Max is the largest latency, to the histogram's three digits.
func (f *Flow) Max() time.Duration {
	if f.Latency == nil || f.Latency.TotalCount() == 0 {
		return 0
	}
	return time.Duration(f.Latency.Max()) * LatencyUnit
}

// Failed is the sum of Failures.
func (f *Flow) Failed() int64 {
	var n int64
	for _, c := range f.Failures {
		n += c
	}
	return n
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

// CPU is what the server's process used over the measured interval.
type CPU struct {
	Seconds float64 `json:"seconds"`
	// PerRequest is Seconds by the successes of the run's flows: requests where
	// the client is raw, records where it is kgo or where only received ones count.
	PerRequest time.Duration `json:"per_request_ns"`
}

// Verification is the comparison of what was acknowledged with what the topic
// holds, warm-up included.
type Verification struct {
	// Acknowledged records, each of which must be found once.
	Acknowledged int64 `json:"acknowledged"`
	// Found counts the records of this run in the topic, duplicates included.
	Found int64 `json:"found"`
	// Lost were acknowledged and are not there.
	Lost int64 `json:"lost"`
	// Duplicated counts copies beyond the first, acknowledged or not.
	Duplicated int64 `json:"duplicated"`
	// Unacknowledged were sent and never acknowledged: there or not, both right.
	Unacknowledged int64 `json:"unacknowledged"`
	// Foreign records are of another run or another program.
	Foreign int64 `json:"foreign"`
}

// Bad says that something acknowledged is lost or that something is there twice.
func (v *Verification) Bad() bool { return v.Lost > 0 || v.Duplicated > 0 }

// Names of flows, as Progress and reports use them.
const (
	FlowReceived = "received"
	FlowProduce  = "produce"
	FlowConsume  = "consume"
	FlowEndToEnd = "end-to-end"
)

// Progress is called from one goroutine after each point of the measured
// interval, once for each flow. It must not block. nil is allowed.
type Progress func(flow string, p Point)

// NamedFlow is a flow with its name.
type NamedFlow struct {
	Name string
	*Flow
}

// Flows lists the flows that the run had, in a fixed order.
func (r *Result) Flows() []NamedFlow {
	var all []NamedFlow
	for _, f := range []NamedFlow{{FlowReceived, r.Received}, {FlowProduce, r.Produce}, {FlowConsume, r.Consume}, {FlowEndToEnd, r.EndToEnd}} {
		if f.Flow != nil {
			all = append(all, f)
		}
	}
	return all
}

// Succeeded says that every flow of the run had at least one success.
func (r *Result) Succeeded() bool {
	flows := r.Flows()
	for _, f := range flows {
		if f.Records == 0 {
			return false
		}
	}
	return len(flows) > 0
}
