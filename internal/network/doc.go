// Package network owns client connections: listeners, a reader and a writer goroutine for each
// connection, and pollers that handle small requests of many connections. It keeps the
// order of requests and responses, and every bound that stops a client from taking more than its
// share.
//
// The path of a request:
//
//	reader   reads the frame's length and key; waits until the request may start, the
//	         connection's limits allow it, and its client's quotas; reads the rest, charging what has
//	         arrived (see admission); calls Handler.Handle, which may block only
//	         if Request.MayBlock allows it
//	handler  answers, once, from any goroutine: Respond, RespondRaw,
//	         RespondNone or Abort. The frame's memory and charge are released
//	writer   writes the answers in the order of the requests (invariant I1), all
//	         that are ready in one system call; it waits for the oldest only
//
// Handlers start in the order of arrival. A Produce may start while earlier ones are unanswered.
// Any other request starts, and anything after it starts, when all earlier answers are ready.
//
// While the reader is working it is also the writer: it flushes answers that are ready before it
// blocks. An answer that is ready when Handle returns therefore costs no goroutine switch, and a
// pipelined burst is answered with one write. Only a later answer wakes the writer goroutine.
//
// For small Produce requests a wake-up costs more than the work, and for those that end a
// transaction. A connection whose last request was a small one of Produce or of a quick API
// (protocol.API) is offered to a poller (Linux; see connlife). A poller is one goroutine that
// finds all its connections with something to read in one system call, then reads and handles them
// in a row. Then it runs the commits that these requests added to its batch (Request.Batch), each
// once: the logs commit, the journal writes its group and the answers go out, all on this goroutine
// unless another one is already doing so (see pollLoop). The poller's flusher writes answers that
// come at other times, also in a row. Requests that are large, incomplete or of another API go to
// the connection's own goroutines, and so do requests that must wait for a client. A Produce that
// takes far longer than a small plain one is handed over to them (Request.HandOver).
//
// # The life of a connection
//
// Package connlife has the states of a connection, its reader and its writer as tables, and draws
// them. Only conn.on changes them. In the tables, a connection that is accepted, authenticating or
// hung up is open. What they cost and promise:
//
//	accepted        counts against the limits on connections, in total and per address
//	authenticating  the TLS handshake, then the login (see login), both before one deadline; counts
//	                as unauthenticated, in total and per address; requests of the login
//	                only, of a budget of their own, and no poller
//	open            as above
//	hung up         its client has closed its side: requests that it sent are still
//	                handled in order, and OnClose makes handlers release what they parked
//	draining        no further request is read (end of the stream, Shutdown, Abort,
//	                idle, a bad or late frame); requests that were read are answered
//	closing         after a short time for the client to read, the socket is closed
//	killed          the socket is closed at once: it broke, or its client does not read
//	hijacked        its socket belongs to a link; see below
//	gone            it has no socket and no goroutines; unanswered requests are orphans,
//	                which keep their memory until they are answered; the answers are dropped
//	released        all its requests are answered, and another connection may have its slot
//
// A connection that ends cancels nothing that was passed to the Handler.
//
// Request.Hijack ends a connection in another way: its socket continues as a plain net.Conn, which
// belongs to the links between brokers. It no longer counts against the limits on connections. Its
// owner closes it, or at the latest Shutdown or Close.
//
// # The parts of a connection
//
// Each part has one owner:
//
//	in, arrival, batch, login    the goroutine with the reading role: the reader, or the poller
//	                             to which it has offered the connection
//	out                          the goroutine with the writing role
//	identity, blocked            the reading role writes them, with conn.mu held
//	life, queue, expiry          conn.mu: the states, the requests and their counts, the timer
//	                             of the oldest request
//	sock                         conn.mu and the two roles (see socket)
//	poll                         conn.mu, without its timer (see polling)
//	the others                   they never change, or are atomic
//
// queue has no lock and no I/O: it answers from its counts whether another request may start, and a
// test compares each count with the requests from which it follows.
//
// # What a client may cost
//
//	what                                 bound                             beyond it
//	a request's bytes, arriving          32 times what has arrived;        waits in a queue; meanwhile a
//	                                     half of its kind's budget, of     connection that lags is closed
//	                                     which 1/8 is for small requests
//	whole requests, unanswered           ProduceBytes, OtherBytes;         waits, first come, first
//	                                     ConnectionBytes and -Requests     served; is not read
//	one request                          MaxFrame; a Produce 2 times its   is closed
//	                                     budget, others half of it
//	connections without a login          MaxUnauthenticated, also per      one of them makes room, or
//	                                     address                           it is closed at accept
//	                                     LoginTimeout                      is closed
//	TLS records without data             2,048, before the login 256;      is closed
//	                                     64 KiB in a row
//	read buffers                         1 KiB each, ReadBytes in all      is read in smaller pieces
//	buffers of TLS                       16 KiB each for reading and, for  is written in smaller pieces
//	                                     a large answer, for writing; of
//	                                     ReadBytes 128 KiB for writing
//	answers that it does not read        UnwrittenBytes each and one       is not read, and closed
//	                                     more, AnswerBytes in all          after WriteTimeout or sooner
//	time of a poller                     128 KiB decompressed (broker),    continues on its own reader
//	                                     2 ms for one read
//	bytes and time of a quota            the quota, of all who share it    waits for its turn, unread
//	requests that outlive it             its slot among Limits             can't reconnect
//	parked requests                      the handler's                     released by OnClose
//
// When memory is short, small requests still pass: a small request that has arrived completely
// never waits for one that has not. When a disk hangs, its reads block the readers of their own
// connections, pollers are replaced (see pollLoop), and Shutdown ends with its context and reports
// what is still running. When there are no free descriptors, accepting waits and resumes.
//
// # TLS and logins
//
// The TLS handshake has a goroutine of its own, which starts the reader: an idle connection does
// not keep its deep stack. The reader and the writer use a tls.Conn instead of the socket; pollers
// never read such a connection, they only notice its end. Handshakes and the messages of logins
// compute at a place (internal/share), so that a storm of them leaves half of the processors to
// clients that are served; so do, before the login, records without data (see barren). A client
// that is waited for has no place. At a limit of connections, one that has not logged in makes room
// for another (see crowds).
//
// A connection has a Session, which tells handlers who the client is. Where clients log in, the
// first one is anonymous and ends with the login. Session.End and an expiry close the connection.
//
// Locks: conn.mu guards parts of a connection. Server.mu guards the set of connections. Neither is
// held across I/O or a handler call, and the two are never held together. Waits holds conn.mu while
// it asks where a request waits (see Waiter). poller.mu and flusher.mu are innermost.
//
// daemon starts the server, broker implements Handler, and the journal asks Producers. The package
// must not know what a request means, except for Produce and ApiVersions.
package network
