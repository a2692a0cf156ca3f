// Package desk takes requests to share coordinators to the brokers that have them.
//
//	Initialize, Delete, Summarize   group coordinator ─▶ share coordinator
//	Peek, Open, Write               leader of a share partition ─▶ share coordinator
//	Notify                          share coordinator ─▶ leader, which Watch has registered
//	Handle                          what desks of other brokers ask of this one
//
// A coordinator of this broker gets a request in the same turn, without an encoding. To every other
// broker there is a queue: what comes while its calls are under way is the next call. So the items
// of a call come from many share partitions, and the coordinator stores them with few appends.
//
// The package promises:
//
//   - Every request is answered exactly once, at the latest when its context ends.
//   - An item that no coordinator has accepted or refused is repeated. Its coordinator may have
//     moved, may be loading, or its answer was lost. All items may be repeated, see package
//     sharestate: a repetition of what is stored succeeds, or gets an error after which its caller
//     asks for the state again.
//   - At most maxItems items are under way or wait.
//
// The coordinator is found in the metadata. Only Initialize creates the topic.
//
// The package knows neither connections nor what the states mean. The daemon connects Handle and
// Options.Call to the links between brokers.
package desk
