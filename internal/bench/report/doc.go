// Package report shows what a benchmark measured: a line while it runs, a table,
// JSON, CSV, HdrHistogram's percentile text, and one HTML file with plots.
//
// All of it comes from a bench.Result, and nothing in it is computed but sums,
// ratios and quantiles of what was recorded. Every form names the kind of clients
// that made the load. cmd/chronik-bench and the packages limits and compare call
// it. It opens no connection and knows no protocol.
package report
