// Package brokers runs whole brokers in one process under virtual time: all of a broker but its
// kernel, as package daemon starts it, with clients that speak Kafka's protocol. The network is a
// simtcp.Net, the disks are those of crashfs, and a synctest bubble is the clock.
//
// A history is a seed: it determines which faults occur after which pauses, how long bytes travel,
// what a power loss leaves, and every random number of the brokers. Faults are kills, losses of
// power of one machine, two or all, replaced disks, older copies of disks that are put back,
// pauses, cuts in one direction or both, failing directories, stops, and partitions that move. Half
// of the histories run with a profile that acknowledges written records, or with topics that permit
// unclean elections. In a quarter of all histories names of topics, of a group and of transactional
// ids are as long as they may be. There are three brokers with a vote; or five, of which two have
// none; or three, of which one has a vote; or three, of which one only votes and holds no logs.
// Directed histories have one broker only, which may get seeds and become the first of three.
// Clients are idempotent producers, one with acks=1, readers at leaders and followers, a group of
// two members, two share groups of three members each, and programs that commit offsets, delete
// records, change a setting, and create and delete topics. One of the topics is compacted. Members
// of share groups (package shareload) accept, release, reject and renew, are silent until their
// locks end, leave, and vanish. One of the two groups has dead letters and a retry delay.
//
// In some histories brokers have two log directories, between which an operator moves logs. In
// others they advertise addresses that are no seeds, and one of these leads nowhere.
//
// Other faults need an operator, who does what brokers, commands and docs/cluster.md say: a damaged
// or lost log directory, where log repair must refuse unless it gets the flag that nothing else is
// left; lost metadata of a broker; lost metadata of most voters, once or again, which the rest or a
// copy in a log directory has; a lost data.dir of the only voter, while the others run; a restored
// backup. Only a backup may lack what was acknowledged: the last changes of settings and topics.
//
// A copy of a disk is put back if it was made before the last start of its broker, because only a
// start registers what shows that a log directory is older. Its metadata directory has forgotten
// votes and is never used: the broker keeps the present one, or joins as another member.
//
// In the end everything is healed and judged with package check: the records (lost, vanished,
// duplicate, phantom, out of order, out of range, returned, different replicas), the group (a
// commit that is lost or that a former generation makes, a record that no member consumed), a
// setting, topics, and the leaders that brokers named (two in one epoch, an epoch that goes back).
// Of share groups it judges each delivery and the dead letters (check.Share). All replicas must be
// in sync, the group must consume, and share groups must finish all records, within two minutes
// each. A history may lose records only if an unclean election was logged that its topic or profile
// permits. A profile that acknowledges written records loses nothing that is older than its bound
// when the first power loss occurs.
//
// A seed replays the faults exactly. It does not determine the order in which goroutines run at
// the same virtual instant, nor the random numbers of package math/rand/v2 that clients draw, so a
// history that depends on such a race recurs often and not always; run it several times. The walks
// of package sim are the ones that a seed determines to the last step.
//
// A paused broker's network and disk stand still, but its clocks continue: unlike one that gets
// SIGSTOP, it knows at once when its lease is over.
//
// The package has no code of its own outside its tests, and no package imports it.
package brokers
