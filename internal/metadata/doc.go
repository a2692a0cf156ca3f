// Package metadata holds what a cluster knows about itself: its id, its brokers,
// topics, partitions and dynamic configs.
//
// Three things live here. Store is the small etcd-like interface that keeps the
// truth as keys and versioned values (back ends: filestore for one node). The
// key and value codec says what those keys mean. Image is the truth as every
// request sees it: immutable, replaced as a whole, sharing structure with its
// predecessor, so that one change among 10,000 partitions costs little. The
// Applier turns the store's ordered history into Images and Deltas, runs its
// subscribers (the replica manager among them) with each Delta, and only then
// lets the new Image be seen: a handler that waited for a version finds the
// logs of that version open.
//
// The package promises that an Image never changes (I16), that versions only
// grow, and that a value or key which this version of chronik does not know is
// an error that names it, never skipped.
//
// The controller writes through Store; brokers read Images. It knows nothing of
// the Kafka protocol, of files, nor of what a config means.
package metadata
