// Package outbound has what coordinators use to ask other brokers: Queue, which makes one call of
// many requests, Collector, which waits for the results of all of them, and Outcomes, which logs
// when calls to a broker begin to fail.
//
// Requests to a broker wait in a Queue. A Queue has a fixed number of calls under way, and what
// comes meanwhile is the next call. It has goroutines only while it has had work, and they end with
// its Work. The package knows neither connections nor what a request means: txn/exchange and
// sharestate/desk do.
package outbound
