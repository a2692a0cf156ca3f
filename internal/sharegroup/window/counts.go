package window

// Counts are numbers of offsets to which something has happened since the window exists. A
// repetition of an acknowledgement does not count.
type Counts struct {
	// Delivered counts deliveries, and Redelivered those that are not the first of their record.
	Delivered, Redelivered int64
	// Acknowledged are by type.
	Acknowledged [Renew + 1]int64
	// Ended counts deliveries that ended with a lock or with the session of their member.
	Ended int64
	// Exhausted counts records that no member gets again because they reached the delivery limit.
	Exhausted int64
}

// Counts returns the present numbers.
func (w *Window) Counts() Counts { return w.counts }

// Since returns what has been counted since other, earlier Counts of the same window.
func (c Counts) Since(other Counts) Counts {
	c.add(other, -1)
	return c
}

// Add adds other counts.
func (c *Counts) Add(other Counts) { c.add(other, 1) }

func (c *Counts) add(other Counts, sign int64) {
	c.Delivered += sign * other.Delivered
	c.Redelivered += sign * other.Redelivered
	c.Ended += sign * other.Ended
	c.Exhausted += sign * other.Exhausted
	for i := range c.Acknowledged {
		c.Acknowledged[i] += sign * other.Acknowledged[i]
	}
}

// Accepted returns how many records were accepted.
func (c *Counts) Accepted() int64 { return c.Acknowledged[Accept] }

// Released returns how many records were released.
func (c *Counts) Released() int64 { return c.Acknowledged[Release] }

// Rejected returns how many records were rejected.
func (c *Counts) Rejected() int64 { return c.Acknowledged[Reject] }

// Archived returns how many records no member gets again although none accepted them: those that
// were rejected, and those that reached the delivery limit.
func (c *Counts) Archived() int64 { return c.Rejected() + c.Exhausted }

// exhausted counts offsets if their delivery was the last one.
func (w *Window) exhausted(to State, n int64) {
	if to == Archived || to == Archiving {
		w.counts.Exhausted += n
	}
}
