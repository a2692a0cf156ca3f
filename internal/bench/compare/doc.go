// Package compare runs the same load on two brokers in turns, A B A B …, and says
// how they relate: a machine that is faster at noon than at eleven is so for both.
//
// A ratio is taken within a round, between neighbours in time, and the median of
// the rounds' ratios is what is reported, with the smallest and the largest. With
// an echo in each round it says how far each broker is from what the machine can
// do. A run in which nothing succeeded, or whose verification failed, ends the
// comparison: it promises that no ratio stands on failures. cmd/chronik-bench
// offers it as `compare`. It knows no protocol: package bench runs, report writes.
package compare
