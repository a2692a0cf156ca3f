package hostile

import (
	"context"
	"time"
)

// Attack is one way in which a client that has not logged in tries to make others pay.
type Attack struct {
	Name string
	// Aim is what it is aimed at.
	Aim string
	// Holds is how many bytes the broker may hold at most for it, while its connections are open.
	Holds int64
	// Keeps is how much of that may still be there Lasts after its connections were closed.
	Keeps int64
	// Part is the percentage of the attack that shows in a moment whether its bound on memory holds; 0: there is none.
	Part int
	// prepare makes what the attack needs of a broker that is not attacked yet; nil is nothing.
	prepare func(ctx context.Context, c *Conn, m *Mob) error
	// run attacks until ctx ends, or until everything was sent that is to be held.
	run func(ctx context.Context, m *Mob) error
}

// Lasts is how long after its connections were closed an attack may hold more than it may keep.
const Lasts = 20 * time.Second

// Bounds that most attacks share. A broker's garbage, pools and caches move by the first of them.
const (
	little  = 16 << 20
	some    = 32 << 20
	budget  = 64 << 20 // of what a budget counts
	idleFor = 300_000  // milliseconds; what a client may make the broker wait for at most
)

// Prepare makes what the attack needs.
func (a Attack) Prepare(ctx context.Context, m *Mob) error {
	if a.prepare == nil {
		return nil
	}
	c, err := Dial(ctx, m.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // what was prepared has been answered
	return a.prepare(ctx, c, m)
}

// Run attacks until ctx ends, or until everything was sent that is to be held. The mob's connections stay open.
func (a Attack) Run(ctx context.Context, m *Mob) error { return a.run(ctx, m) }

// Attacks are all attacks.
func Attacks() []Attack {
	var all []Attack
	all = append(all, frameAttacks()...)
	all = append(all, connectionAttacks()...)
	all = append(all, recordAttacks()...)
	all = append(all, fetchAttacks()...)
	all = append(all, groupAttacks()...)
	all = append(all, offsetAttacks()...)
	return append(all, adminAttacks()...)
}
