// Package results shows the results of a benchmark: a line while it runs, a table, and JSON.
//
// All forms are derived from a bench.Result, and never compute more than sums, ratios and quantiles
// of recorded values. Every form names the kind of clients of the load. cmd/chronik-bench and the
// packages limits and compare call it. It opens no connection and knows no protocol.
package results
