// Package compare runs the same load alternately on two brokers, A B A B …, and reports their
// ratios, so that a machine whose speed changes over time affects both alike.
//
// It computes ratios within a round, between consecutive runs, and reports the median of the
// rounds' ratios with minimum and maximum. With an echo in each round it shows how far each broker
// is from the machine's limit. A run without a success, or with a failed verification, ends the
// comparison: it promises that no ratio is based on failures. cmd/chronik-bench offers it as
// `compare`. It knows no protocol: package bench runs, frame repeats and compares.
package compare
