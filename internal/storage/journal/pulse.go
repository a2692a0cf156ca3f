package journal

// Pulse returns the last durable LSN, and whether somebody waits for the next
// one: entries are queued, or the writer has a group. Where that stays so and
// the LSN stays the same for long, the journal hangs, or its disk does.
func (j *Journal) Pulse() (durable LSN, waiting bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Durable(), j.waiting.entries > 0 || j.busy || j.asked
}
