// Package service runs this broker's coordinators: Service for any internal topic, Groups
// for consumer groups.
//
// A Service connects a coordinator.Runtime to partitions and metadata. It creates the
// internal topic when a client first asks for a coordinator. It runs a shard for every
// partition that this broker leads, in the leader epoch of the partition, and notifies
// the shards of metadata changes. A Definition names the topic and makes the machines.
// Consumer groups have one, transactions, and the states of share groups.
//
// A partition is a shard's log: the package builds batches from records, appends them with acks=all
// under the topic's durability profile, and reads up to the high watermark. A broker without a
// lease never answers for a coordinator: requests get ErrNotCoordinator, because another broker may
// have accepted newer commits.
//
// Groups is the Service for __consumer_offsets. It adds group configs, closed connections,
// the memory limit for members, and each group's lag. The meaning of the records belongs
// to coordinator/group.
//
// Transactions is the Service for __transaction_state. It adds the configs of transactions,
// tells the shards which topics exist and which are weak, and asks for a higher leader epoch
// if a partition knows a newer coordinator than there is. The records belong to
// coordinator/txn; how the shards reach partitions belongs to txn/exchange.
//
// Shares is the Service for __share_group_state. It tells the shards the leader epochs of all
// partitions, and deletes what no load of the topic needs. The records belong to
// coordinator/sharestate; how requests reach the shards belongs to sharestate/desk.
//
// The daemon subscribes Apply to the metadata, so that it runs after the replicas' Apply.
// It calls Stop before it drains connections, because a request may wait for minutes, and
// Close afterwards. Handlers call Submit and Ensure; the package knows no requests.
package service
