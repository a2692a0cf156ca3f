// Package telemetry keeps the metrics that clients push to the broker (KIP-714): which client may
// push what and how often, and the last values of each.
//
// # Subscriptions
//
// An operator subscribes to metrics with the configs of a client-metrics resource: names or
// prefixes of metrics, an interval, and selectors of the clients that are asked. A client asks for
// its subscription, which is the union of all that select it with the shortest of their intervals,
// and then pushes these metrics. The id of a subscription follows from its contents, so that every
// broker of a cluster computes the same, and a client may push to another broker than the one that
// it asked. A push with another id is refused; the client then asks again.
//
// # States of a client
//
//	unknown ── asks, is subscribed to ──▶ asked ── pushes ──▶ pushed ── pushes after the interval ──▶ pushed
//	asked, pushed ── asks after the interval, or after a refused id ──▶ asked
//	any ── pushes with terminating ──▶ ended
//	any ── silent for three intervals, or the first to expire of who has the most, when there is no room ──▶ unknown
//
// Nothing is kept of a client that no subscription selects, and no series that its subscription
// does not select: they go when the client learns of the change. A series that three pushes in a
// row did not have goes, too. The sums of deltas stay as long as the client, because franz-go
// leaves out deltas of 0. They go after three pushes if there is no room.
//
// # Bounds
//
// Clients choose names and numbers of what they push, so all of it is bounded: clients, series and
// the bytes of their names, in total and for each client. When there is no room, the user and
// address that hold most of what is short, be it clients, series or bytes, lose the client that
// expires first. So none keeps out others that hold less of it. Values that find no room, or that
// make room for others, are counted. The package knows neither requests nor how metrics are shown.
package telemetry
