// Package cluster connects the parts that make a broker a member of a cluster: links between
// brokers, the replicated metadata store, membership, the controller, and the replica streams. It
// tells the controller what this broker's logs have.
//
// It owns the addresses of the other brokers, the goroutines of these parts and their order:
//
//	Open      the metadata directory and the links; this node votes from here on
//	Enter     a node without metadata forms or joins the cluster
//	Control   follows the metadata; the controller runs while this node leads
//	Register  this process is the broker from here on
//	Drain, Close
//
// A request of another broker is refused until the part that handles it runs, and the other broker
// repeats it. It decides nothing: package membership decides how a cluster begins, package
// controller about brokers, and raftstore about the metadata. The daemon calls it.
package cluster
