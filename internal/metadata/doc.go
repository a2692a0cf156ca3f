// Package metadata holds what a cluster knows about itself: its id, its brokers, topics,
// partitions, dynamic configs, access rules, users and quotas, its snapshots, and what the object
// store has of its logs.
//
// The package has three parts. Store is a small etcd-like interface that holds the authoritative
// data as keys and versioned values (raftstore; copies keeps a second copy of them). The key and
// value codec defines what they mean. Image is the data as requests see it: immutable,
// replaced as a whole, and sharing structure with its predecessor, so that one change among 10,000
// partitions is cheap. The Applier turns the store's ordered history into Images and Deltas. It
// notifies its subscribers, such as the replica manager, of each Delta and then publishes the new
// Image: a handler that has waited for a version finds the logs of that version open.
//
// The package promises that an Image never changes (I16), and that versions only grow. A key or
// value that this version of chronik does not know is an error that names it; it is never skipped.
//
// The controller writes through Store; brokers read Images. The package knows nothing of the Kafka
// protocol, of files, or of what a config means.
package metadata
