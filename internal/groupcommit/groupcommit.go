// Package groupcommit lets requests that are handled in a row share their commits: the
// appends of fifty connections become one group of their log, and the groups of many logs
// one write and one fdatasync of their journal.
//
// Each component that handles requests in a row owns a Batch, and runs it or hands it off: network,
// coordinators, followers, the gate and the exchange of transactions, and dead letters. Logs and
// journals add themselves to one. A Batch commits, pushes to followers and syncs in this order.
// That Run returns never means that records are durable: their log reports that. The package
// imports nothing and does not know what a commit does.
package groupcommit

// Committer has work for the end of a batch: a log with appends in its queue.
type Committer interface {
	// Commit does the work; there may be none left. It must not block. It may add Pushers and
	// Syncers to the batch, but no Committers.
	Commit(*Batch)
}

// Pusher has work for the time between the commits and the syncs: a connection to a follower
// that sends what the commits appended, so that the follower's disk and this broker's work at
// the same time.
type Pusher interface {
	// Push does the work; there may be none left. The clients of the batch and its journals
	// wait for it. So it must not block: it may write to a socket only what the socket accepts
	// at once, at most 1 MiB, and leaves the rest to another goroutine, as everything that needs
	// a disk or a lock that is held across I/O.
	Push()
}

// Syncer has work for the time when all Committers of a batch are done: a journal with
// entries in its queues.
type Syncer interface {
	// WriteGroup does the work; there may be none left. It may block for about as long as
	// it takes to wake another goroutine, and for longer if a disk hangs.
	WriteGroup()
	// Wake makes a goroutine of the Syncer do the work. It does not block.
	Wake()
}

// Batch collects commits. It belongs to one goroutine. Its zero value is ready for use.
type Batch struct {
	commits []Committer
	pushes  []Pusher
	syncs   []Syncer
}

const (
	// lookBack is how many entries Add compares with. A Committer that is further back is
	// added a second time, and finds nothing to do then.
	lookBack = 8
	// maxCommits bounds the Committers of a batch; Add runs them before it adds more. The
	// memory for keptCommits of them is kept: every connection has a batch.
	maxCommits  = 1024
	keptCommits = 128
)

// Add adds a Committer, unless it was just added. Nothing is durable when Add returns: records in
// the log's queue get offsets and are queued for the journal when the batch commits, in Run,
// HandOff or a later Add. They are durable when the journal has synced them, for which Run and
// HandOff need not wait. So an append is complete when its log reports its end, never because Run
// returned.
func (b *Batch) Add(c Committer) {
	if len(b.commits) == maxCommits {
		b.commit()
	}
	n := len(b.commits)
	for i := n - 1; i >= 0 && i >= n-lookBack; i-- {
		if b.commits[i] == c {
			return
		}
	}
	b.commits = append(b.commits, c)
}

// AddSync adds a Syncer, unless the batch has it. Nothing is durable when AddSync returns, nor need
// anything be when Run does: the Syncer notifies its logs of that. Only Commit calls it; there are
// as many Syncers as log directories.
func (b *Batch) AddSync(s Syncer) {
	for _, has := range b.syncs {
		if has == s {
			return
		}
	}
	b.syncs = append(b.syncs, s)
}

// AddPusher adds a Pusher, unless the batch has it. Only Commit calls it; there are as many
// Pushers as followers.
func (b *Batch) AddPusher(p Pusher) {
	for _, has := range b.pushes {
		if has == p {
			return
		}
	}
	b.pushes = append(b.pushes, p)
}

// Empty reports whether there is nothing to run.
func (b *Batch) Empty() bool { return len(b.commits)+len(b.pushes)+len(b.syncs) == 0 }

// Run commits, pushes and syncs on this goroutine, in this order. At most one Syncer writes here,
// after all others were woken, so that no journal waits for the disk of another one. It may wake
// its writer instead, so that nothing need be durable when Run returns.
func (b *Batch) Run() { b.run(Syncer.WriteGroup) }

// HandOff commits and pushes on this goroutine and leaves the syncs to others. It does not block.
func (b *Batch) HandOff() { b.run(Syncer.Wake) }

// run does the work of the batch. What is committed is ordered and with its journal when it
// returns, and durable only when that has synced it: last says who does that for the last Syncer.
func (b *Batch) run(last func(Syncer)) {
	if b.Empty() {
		return
	}
	b.commit()
	for _, p := range b.pushes {
		p.Push()
	}
	clear(b.pushes)
	b.pushes = b.pushes[:0]
	n := len(b.syncs)
	for i, s := range b.syncs {
		if i < n-1 {
			s.Wake()
		} else {
			last(s)
		}
	}
	clear(b.syncs)
	b.syncs = b.syncs[:0]
}

// commit has the logs order their appends and pass them to their journals. Nothing is durable yet.
func (b *Batch) commit() {
	for _, c := range b.commits {
		c.Commit(b)
	}
	clear(b.commits)
	if b.commits = b.commits[:0]; cap(b.commits) > keptCommits {
		b.commits = nil
	}
}
