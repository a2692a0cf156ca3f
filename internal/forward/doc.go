// Package forward passes requests of clients to the brokers that serve them, for listeners with one
// address for all brokers (docs/forwarding.md).
//
// A connection of a client has a tunnel to each broker to which one of its requests was passed: a
// connection of its own, on which the other broker serves the client as if it had connected there.
// So the other broker keeps the order, and its own bounds, quotas and rights apply.
//
//	Pass       goroutine that reads the client   writes the frame, as far as the socket takes it
//	flush      a goroutine, while there is more  writes the rest
//	read       the tunnel's goroutine            passes answers to network, in their order
//	finish     any                               the client has gone: the other broker learns it
//	fail       any                               the tunnel has ended: exactly the requests on it are lost
//
// A request is sent once. Who answers lost requests is Options.Lost.
//
// Memory: a frame that is not written yet is that of its request, which network counts. An answer
// is read as a whole; large ones wait for Options.Answers, each on its own tunnel. Options.Bytes
// bounds the Produce requests of all clients that wait for one broker, so that one that hangs takes
// no memory from requests to others.
//
// The broker decides what is passed where, daemon dials. The package must not know what a request
// means, except that only Produce requests start before earlier ones are answered.
package forward
