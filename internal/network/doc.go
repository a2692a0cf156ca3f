// Package network owns client connections: listeners, one reader and one writer
// goroutine a connection, pollers that do small Produce requests for many
// connections at once, the order of requests and responses, and every bound that keeps
// a client from taking more than its share.
//
// The way of a request:
//
//	reader   reads the frame's length and key; waits for its turn and for the
//	         connection's limits; reads the rest, charging what has arrived (see
//	         intake); calls Handler.Handle, which must not block
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
// anything but a Produce goes to the connection's own goroutines, and so does a Produce
// that takes far longer than a small plain one (Request.HandOver).
//
// # The life of a connection
//
//	accepted ──▶ authenticating ──▶ open ──▶ hung up ──▶ draining ──▶ gone ──▶ vacated
//	                (if its listener asks)      │                      ▲
//	                                            └──────── killed ──────┘
//
//	accepted        counts against max.connections, in all and of its address
//	authenticating  small frames only, and no poller
//	open            as above
//	hung up         its client has closed its side: what it sent is still handled, in
//	                turn, and OnClose has handlers release what is parked for it
//	draining        nothing is read any more (the stream's end, Shutdown, Abort, idle, a
//	                frame that is bad or late); what was read is answered, then the
//	                socket is closed, with a moment for the client to read
//	killed          the socket is closed at once: it broke, or its client does not read
//	gone            it has no socket and no goroutines; unanswered requests are orphans,
//	                which keep their memory until they are answered; the answers are dropped
//	vacated         they were, and its place is another's
//
// A connection that dies cancels nothing that was handed to the Handler.
//
// # What a client may cost
//
//	what                                 bound                             beyond it
//	a request's bytes, arriving          32 times what has arrived;        waits in line; who lags
//	                                     half of its kind's budget, of     meanwhile is closed
//	                                     which 1/8 is for small requests
//	whole requests, unanswered           ProduceBytes, OtherBytes;         waits, first come, first
//	                                     ConnectionBytes and -Requests     served; is not read
//	one request                          MaxFrame, 2 times its budget      is closed
//	read buffers                         1 KiB each, ReadBytes in all      reads in smaller pieces
//	answers that it does not read        UnwrittenBytes each and one       is not read, and closed
//	                                     more, AnswerBytes in all          after WriteTimeout or sooner
//	time of a poller                     128 KiB inflated (broker), 2 ms   goes on at its own reader
//	                                     for what comes together
//	requests that outlive it             its place among MaxConnections    can't come again
//	parked requests                      their handler's                   OnClose
//
// When memory is short small requests still pass: one that arrives whole never waits for
// one that does not. When a disk stands still, what is read of it stays where it is, on
// the connections' own readers; pollers are relieved (see shift), and Shutdown
// ends with its context and says what it left behind. When descriptors are short,
// accepting waits and goes on.
//
// Locks: conn.mu guards a connection's queue. Server.mu guards the set of
// connections. Neither is held across I/O or a call of a handler, and conn.mu is
// never taken with Server.mu held or the other way round. poller.mu and flusher.mu
// are innermost.
//
// daemon starts it, broker implements Handler, the journal asks the Census. It
// must not know what a request means beyond Produce and ApiVersions.
package network
