// Package connlife defines the life cycle of a client connection as three tables: the connection,
// its reader and its writer. It has no I/O, locks or clock; package network asks a State what may
// happen, and records what did.
//
// An event may concern several tables. It happens in all of them or in none: it is refused if one
// of them has the event and its present state does not. So a table may permit what another one
// does.
//
// # The connection
//
//	open ── stop ──▶ draining
//	open ── reader ends ──▶ draining ── drained ──▶ closing ── writer ends ──▶ released
//	{open, draining, closing} ── kill ──▶ killed ── writer ends ──▶ released
//	                                      killed ── orphans ──▶ gone ── last answer ──▶ released
//	open ── hijack ──▶ hijacked ── writer ends ──▶ released
//
//	open      requests are read and answered
//	draining  no further request is read; those that were read are answered
//	closing   all are answered; the client has a short time to read the answers and to close
//	killed    the socket is closed
//	hijacked  the socket belongs to a link
//	gone      it has no goroutines; unanswered requests keep their memory
//	released  nothing of it is left
//
// # The reader
//
//	{free, busy} ── push ──▶ busy ── block ──▶ free
//	free ── take over ──▶ busy
//	{free, busy} ── wait ──▶ waiting ── wake ──▶ free
//	free ── offer ──▶ offered ── poll ──▶ polling ── handled ──▶ offered
//	                                      polling ── release ──▶ free
//	                                      polling ── interrupt ──▶ recalled
//	offered ── recall ──▶ recalled ── take back ──▶ free
//	offered ── stop ──▶ recalled
//	offered ── kill ──▶ recalled
//	{free, busy} ── reader ends ──▶ ended
//
//	free      the reader goroutine reads; the writer writes what is answered meanwhile
//	busy      it handles requests, and writes the answers that are ready before it blocks
//	waiting   it waits until a request may start
//	offered   it sleeps; a poller may read the connection
//	polling   a poller reads it
//	recalled  the reader goroutine is about to take it back
//	ended     nothing more is read
//
// # The writer
//
//	idle ── list ──▶ listed ── unlist ──▶ idle
//	idle ── take ──▶ writing ── written ──▶ idle
//	                 writing ── leave ──▶ left ── resume ──▶ writing
//	listed ── take ──▶ writing, listed ── written ──▶ listed
//	                   writing, listed ── unlist ──▶ writing
//	{idle, listed} ── writer ends ──▶ over
//	{idle, listed} ── orphans ──▶ over
//
//	idle     nothing is written
//	listed   the poller's flusher will write
//	writing  a goroutine writes
//	left     the socket did not take all that the flusher wrote; the writer goroutine continues
//	over     nothing more is written
//
// docs/requests.md shows the same tables. The tables know neither sockets nor locks nor requests.
package connlife
