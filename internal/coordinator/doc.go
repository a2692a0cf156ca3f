// Package coordinator runs internal topics as replicated state machines.
//
// A shard is one partition of an internal topic together with the Machine whose
// state its records are. This package owns the shards: who leads, loading, the
// order of events, batching, timers, and when an answer may go out. What the
// records mean is the Machine's: group coordinator, transaction coordinator.
//
//	Submit ─▶ queue ─▶ Machine.Handle ─▶ records ─▶ open batch ─▶ Log.Append
//	timers ─▶ door  ▲                 ├▶ answers ─▶ held until the high watermark covers them
//	                │                 └▶ calls ─▶ results, as events
//	                └──────────── done(err) ◀───────────────────────────┘
//
// It promises:
//
//   - One event at a time per shard, in the order of arrival. A shard's goroutine
//     exists only while there is something to do.
//   - A Machine's replicated state changes by records alone, and every record it
//     emitted is appended in the order of emission; those of one event in one batch.
//   - An answer goes out when everything that the Machine had emitted by then is
//     committed: no answer, of a reader neither, shows what could be taken back.
//   - An event that writes is refused, and changes nothing, while the log would refuse
//     what it writes (ErrRefused). Events that only read are answered, and timers wait.
//   - When an append fails or the leadership ends, no answer that depended on it
//     goes out; the Machine is thrown away, and where the broker still leads a new
//     one is loaded from the log, whose timers have what was left. Requests meanwhile
//     get ErrLoading or ErrNotCoordinator.
//   - What takes long does not hold up a shard: a Machine has it done by a Call, whose
//     result comes back as an event.
//   - What waits is bounded: Options.MaxWaiting requests per shard, MaxInFlight
//     appends, one open batch, one call.
//
// docs/groups.md has the design and the table of failures. The broker calls
// Submit, the daemon Lead and Resign; the package knows neither requests nor logs.
package coordinator
