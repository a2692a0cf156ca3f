// Package coordinator runs internal topics as replicated state machines.
//
// A shard is one partition of an internal topic together with the Machine whose state the records
// hold. This package owns the shards: leadership, loading, the order of events, batching, timers,
// and when a response may be sent. A Machine, such as the group coordinator, defines what the
// records mean.
//
//	Submit ─▶ queue ─▶ Machine.Handle ─▶ records ─▶ open batch ─▶ Log.Append
//	timers ─▶ halt  ▲                 ├▶ answers, sends ─▶ held until the high watermark covers them
//	                │                 └▶ calls, deferred events ─▶ events
//	                └──────────── done(err) ◀───────────────────────────┘
//
// The package promises:
//
//   - A shard handles one event at a time, in the order of arrival. It has a goroutine only while
//     there is work; a few goroutines stay for the next shard that has some.
//   - Only records change a Machine's replicated state. The runtime appends every emitted record in
//     the order of emission, and the records of one event in one batch.
//   - The runtime sends a response when all records emitted so far are committed. No response, not
//     even to a request that only reads, shows state that could still be rolled back. The same is
//     true for requests that a Machine sends to other components.
//   - If the log would refuse an append, events that write are refused and change nothing
//     (ErrRefused). Events that only read are answered; timers and deferred events wait.
//   - When an append fails or leadership ends, nothing that depends on the append is sent. The
//     runtime discards the Machine. If the broker still leads, it loads a new one from the log,
//     whose timers keep the time they had left. Until then, requests get ErrLoading or
//     ErrNotCoordinator.
//   - Slow work does not block a shard: a Machine asks for a Call, and its result arrives as an
//     event.
//   - Queues are bounded: Options.MaxWaiting requests per shard, MaxInFlight appends, one open
//     batch, one call at a time.
//
// docs/groups.md has the design and the table of failures. The broker calls Submit, the service
// calls Lead and Resign. The package knows neither requests nor how a log is stored.
package coordinator
