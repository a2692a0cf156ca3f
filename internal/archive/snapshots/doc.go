// Package snapshots takes snapshots of a cluster, on a schedule and when an operator asks for one,
// removes old ones, deletes the objects that neither they nor copies of old records need, and
// verifies the newest.
//
// The Service runs on every broker and works on the one that leads the metadata. It takes a cut
// (package cut), lets every broker upload its logs (package writer, through a Desk), puts the
// index, and then names it in the metadata. Whatever fails before that leaves no snapshot, only
// objects that a later collection deletes (docs/snapshots-design.md). The package knows neither
// logs nor connections.
package snapshots
