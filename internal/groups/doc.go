// Package groups is the group coordinator of this broker: the pure coordinator of
// coordinator/group in a coordinator/host.
//
// It owns what is of groups in that: the definition of __consumer_offsets, which topics
// and configs of groups the shards hear of, whose connections' end, how much memory
// members may hold, and the census with the lag. What the records mean is
// coordinator/group's, how they are written coordinator/replicalog's.
//
// Handlers call Submit and Ensure; the package knows no requests.
package groups
