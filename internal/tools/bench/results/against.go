package results

import (
	"fmt"
	"strings"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/bench"
)

// Meaning explains a number of the report.
type Meaning struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// legend explains the numbers of a run of c, each in a line.
func legend(c bench.Config) []Meaning {
	var list []Meaning
	add := func(name, format string, args ...any) {
		list = append(list, Meaning{name, fmt.Sprintf(format, args...)})
	}
	success := "responses with error 0 and a valid offset"
	payload := "values of these records, without keys, headers and batches"
	switch {
	case c.Mode == bench.ModeConsume:
		success = "responses with error 0"
	case c.Acks == bench.AcksNone:
		add("received", "records appended to the topic, by any producer: the growth of its log end offsets in the interval")
		success = "writes to a socket, without confirmation"
	}
	if c.Mode == bench.ModeConsume && c.Clients == bench.ClientsOwn {
		payload = "whole record batches, of which only the headers are read"
	}
	add("requests/s", "%s, counted if they ended in the measured interval, and divided by it", success)
	add("records/s", "records in them")
	add("payload MB/s", "%s; 1 MB = 10^6 bytes", payload)
	add("wire MB/s", "requests and responses together, with all of Kafka's headers, without those of TCP")
	add("failures", "requests (own) or records (kgo) that ended with an error in the interval; no other number includes them")
	from := "the write of a request"
	if c.Rate > 0 {
		from = "the time at which the rate intends a record"
	}
	switch {
	case c.Mode == bench.ModeConsume && c.Clients == bench.ClientsOwn:
		add("latency", "from the write of a fetch until its response was read; a sample for each")
	case c.Mode == bench.ModeConsume:
		add("latency", "between two polls; a sample for each")
	case c.Acks == bench.AcksNone:
		add("latency", "the time until a socket or a client accepted it, as there is no response; a sample for each")
	case c.Clients == bench.ClientsOwn:
		add("latency", "from %s until its response was read; a sample for each, max is the largest of all", from)
	default:
		add("latency", "from handing a record to the client until its delivery was confirmed; a sample for each, max is the largest of all")
	}
	return list
}

// AgainstText describes the broker and the machine in lines; it returns none if they are unknown.
func AgainstText(a *bench.Against, program string) []string {
	if a == nil {
		return nil
	}
	var broker []string
	if a.Broker != "" {
		broker = append(broker, "chronik "+a.Broker)
	}
	if a.TLS != "" {
		broker = append(broker, "over "+a.TLS)
	}
	if a.Profile != "" {
		broker = append(broker, "durability profile "+a.Profile)
	}
	switch {
	case a.Syncs != nil:
		s := a.Syncs
		broker = append(
			broker,
			fmt.Sprintf("%.0f fdatasyncs/s of %.3f ms, each for %.1f records", s.PerSecond, s.Mean.Seconds()*1000, s.Records),
		)
	case a.Admin != "":
		broker = append(broker, "no fdatasync in the interval")
	case a.Profile != "":
		broker = append(broker, "version and fdatasyncs unknown (set --admin to its admin port; chronik-bench limits measures a disk)")
	default:
		broker = append(broker, "a broker that reports neither version nor durability profile")
	}
	from := "from"
	if program != "" {
		from += " chronik-bench " + program + " on"
	}
	machine := []string{fmt.Sprintf("%s %s", from, a.System), text.Count(a.CPUs, "CPU")}
	if a.Load != nil {
		machine = append(machine, fmt.Sprintf("load average %.2f before", *a.Load))
	}
	if a.Local {
		machine = append(machine, "shared with the broker")
	}
	return []string{"against " + strings.Join(broker, ", "), strings.Join(machine, ", ")}
}
