// Package restore makes the directories of one broker from a snapshot in an object store.
//
// Find chooses the snapshot: the newest that is whole, or the one that was asked for. Verify reads
// all of it. Write builds the logs, as a follower does that copies them from a leader, and then the
// metadata of a cluster of its own (controller.Restored). Only verified bytes reach a log. Until
// the last step, a file in the data directory says that the restore has not ended, and no broker
// starts; the same restore can be repeated from there.
//
// The package knows neither flags nor URLs, and takes the place of no broker: the start afterwards
// is an ordinary one.
package restore
