package health

import (
	"strings"
	"testing"
	"time"
)

// A remedy that stops a broker comes after what must not be missing then: another broker that is
// away, copies, or must be stopped itself. Each case has what the remedies begin with.
func TestRemediesThatStopBrokersHaveAnOrder(t *testing.T) {
	at := time.Now()
	stop := func(broker int32, severity Severity) Finding {
		return Finding{Broker: broker, Check: "removed", Subject: "log directory /d", Severity: severity, Stops: true,
			Remedy: "stop the broker"}
	}
	away := func(broker int32) Finding {
		x := OfBroker(broker)
		x.Broker, x.Check, x.Severity, x.Remedy, x.Holds = NoBroker, CheckBrokers, Warn, "start it", "bring back "+BrokerSubject(broker)
		return x
	}
	waiting := away(2)
	waiting.About.Awaits = []int32{3}
	quorum := Finding{Broker: NoBroker, Check: CheckQuorum, Subject: "metadata quorum", Severity: Warn, Remedy: "start brokers",
		Holds: "start the other brokers"}
	const (
		back = "first bring back broker 2, before any other broker stops; then "
		turn = ", and the next one only when `chronikctl cluster health` shows the former in sync, as far as its partitions have leaders: "
	)
	for name, x := range map[string]struct {
		findings []Finding
		want     map[int32]string
	}{
		"nothing else": {[]Finding{stop(1, Bad)}, map[int32]string{1: ""}},
		"another broker is down": {[]Finding{stop(3, Bad), away(2)},
			map[int32]string{3: back}},
		"it is not in order itself":       {[]Finding{stop(3, Bad), away(3)}, map[int32]string{3: ""}},
		"it waits for the one that stops": {[]Finding{stop(3, Bad), waiting}, map[int32]string{3: ""}},
		"it waits for another one":        {[]Finding{stop(1, Bad), waiting}, map[int32]string{1: back}},
		"the metadata would lose their majority": {[]Finding{stop(1, Bad), quorum},
			map[int32]string{1: "first start the other brokers, before any other broker stops; then "}},
		"two in the same state": {[]Finding{stop(1, Bad), stop(2, Bad)},
			map[int32]string{1: "one broker at a time, in the order 1, 2" + turn, 2: "one broker at a time, in the order 1, 2" + turn}},
		"the one that is not in sync comes first": {[]Finding{stop(1, Bad), stop(2, Warn), away(2)},
			map[int32]string{1: "one broker at a time, in the order 2, 1" + turn, 2: "one broker at a time, in the order 2, 1" + turn}},
		"the worst one comes first": {[]Finding{stop(1, Warn), stop(2, Bad)},
			map[int32]string{1: "one broker at a time, in the order 2, 1" + turn, 2: "one broker at a time, in the order 2, 1" + turn}},
		"a note waits for the others": {[]Finding{stop(1, Note), stop(2, Bad)},
			map[int32]string{1: "one broker at a time, in the order 2, 1" + turn, 2: ""}},
		"a note does not bring a broker back": {[]Finding{stop(1, Bad), stop(2, Note), away(2)},
			map[int32]string{1: back, 2: "one broker at a time, in the order 2, 1" + turn}},
		"two in the same state, and one is away": {[]Finding{stop(1, Bad), stop(3, Bad), away(2)},
			map[int32]string{1: back + "one broker at a time, in the order 1, 3" + turn,
				3: back + "one broker at a time, in the order 1, 3" + turn}},
	} {
		r, others := Report{Broker: 1, Findings: []Finding{}}, map[int32]*Report{}
		for _, f := range x.findings {
			if f.Broker == NoBroker || f.Broker == 1 {
				r.Findings = append(r.Findings, f)
			} else {
				others[f.Broker] = &Report{Broker: f.Broker, Findings: []Finding{f}}
			}
		}
		var heard []Heard
		for id, o := range others {
			heard = append(heard, Heard{Broker: id, At: at, Report: o})
		}
		r.Add(heard, at)
		for i := range r.Findings {
			f := &r.Findings[i]
			lead, is := strings.CutSuffix(f.Remedy, "stop the broker")
			if is != f.Stops || is && lead != x.want[f.Broker] {
				t.Errorf("%s: broker %d: %q, want %q", name, f.Broker, f.Remedy, x.want[f.Broker]+"stop the broker")
			}
		}
		for _, o := range others {
			if o.Findings[0].Remedy != "stop the broker" {
				t.Errorf("%s: the report of another broker was changed: %q", name, o.Findings[0].Remedy)
			}
		}
	}
}
