// Package link owns the connections between brokers: how both ends prove who they are, the frames
// that follow, pings, and when a connection counts as broken.
//
// A broker dials every other one, on the listener for brokers. The connection begins with one
// request of Kafka's framing, API key 20480, which network hands to Accept. What it contains, and
// what is exchanged before the first frame of a lane, is the handshake (see handshake.go). Then the
// connection is one lane:
//
//	meta  requests with a response, and messages that may be lost: consensus,
//	      transactions, heartbeats. The end that dialed asks, the other one answers;
//	      each broker of a pair dials the other
//	data  replica streams, dialed by the follower: one connection for each pair of
//	      leader and follower. Its frames are those of frame/payload.go
//	client
//	      the requests of one client of the broker that dialed, and their answers, without
//	      frames: a Tunnel, which the other end serves as it serves its own clients
//
// # Writing
//
// One goroutine at a time has the writing role of a connection. It takes frames from the
// connection's Source, which builds them from what is pending at that moment: nothing waits in a
// queue that the Source does not know.
//
//	idle ──Push──▶ held by the caller ──all written──▶ idle
//	  │                    │ the socket is full, or much is pending
//	  └─────Kick─────▶ held by the connection's own goroutine ──all written──▶ idle
//
// Push writes on the goroutine that calls it and never waits for the peer: a group commit sends its
// records before it waits for its disk. If the role is taken, Push and Kick only note that there is
// more, and the holder asks the Source again.
//
// # When a connection ends
//
//	what                                                 noticed by
//	the peer's process ends                              end of the stream, or a reset
//	its machine, or the network in one direction, dies   no byte for Silence (2 s), to
//	                                                     the reader at the other end;
//	                                                     TCP_USER_TIMEOUT
//	it does not read                                     a write without progress for
//	                                                     Silence
//	a bit of a frame flips, or a frame is no frame       ErrChecksum, ErrMalformed
//	it dials again                                       its newer connection wins
//
// Both ends send a ping after 500 ms without a frame. The end that dialed dials again, after 20 ms
// at first and 1 s at last. Refused dials are reported, since they prove that a process is gone.
//
// Memory: the queues of the lane of metadata and what arrives for it are bounded in bytes, with the
// bounds in Options and outbox.go. The lane of data has no queue, and its reader allocates a
// payload when its caller asks for it.
//
// daemon passes Dial and Admit. The metadata store, replica streams and the controller use the
// lanes through interfaces of their own. The package must not know what a message or a record
// means.
package link
