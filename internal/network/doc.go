// Package network owns client connections: listeners, one reader and one writer
// goroutine a connection, pollers that do small Produce requests for many
// connections at once, the order of requests and responses, and every bound that keeps
// a client from taking more than its share.
//
// The way of a request:
//
//	reader   reads the frame's length and key; waits for its turn and for the
//	         connection's limits; charges the frame to a byte budget; reads the
//	         rest; calls Handler.Handle, which must not block
//	anyone   answers, once, from any goroutine: Respond, RespondRaw,
//	         RespondNone or Abort. The frame's memory and charge are given back
//	writer   writes the answers in the order of the requests (invariant I1), all
//	         that are ready in one system call; it waits for the oldest only
//
// Handlers start in the order of arrival. A Produce starts while earlier ones
// are unanswered; any other request starts, and anything after it starts, when
// all earlier answers are ready.
//
// While the reader is at work it is also the writer: it flushes what is ready
// before it blocks. So an answer that is ready when Handle returns costs no
// switch of goroutines, and a pipelined burst is answered with one write. Only
// an answer that comes later wakes the writer goroutine.
//
// Small Produce requests are where wake-ups cost more than work. A connection whose
// last request was such a one is offered to a poller (Linux; see readRole): one
// goroutine that finds all its connections with something to read in one look, reads
// and handles them in a row, and only then lets what they left be done
// (Request.Later), once for all of them: their logs commit, the journal's group is
// written, and the answers to it go out, by this one goroutine where nobody else is
// at it (see shift). Answers that come at other times are written by the poller's
// flusher, in a row too. Whatever needs waiting for a client, is large, incomplete or
// anything but a Produce goes to the connection's own goroutines.
//
// A connection that dies cancels nothing that was handed to the Handler. What
// its requests hold is given back when they are answered; the answers go
// nowhere.
//
// Locks: conn.mu guards a connection's queue. Server.mu guards the set of
// connections. Neither is held across I/O or a call of a handler, and conn.mu is
// never taken with Server.mu held or the other way round. poller.mu and flusher.mu
// are innermost.
//
// daemon starts it, broker implements Handler, the journal asks the Census. It
// must not know what a request means beyond Produce and ApiVersions.
package network
