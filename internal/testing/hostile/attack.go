package hostile

import (
	"context"
	"time"
)

// Attack is one way in which an unauthenticated client tries to harm others.
type Attack struct {
	Name string
	// Aim describes the attack.
	Aim string
	// Holds is how many bytes the broker may hold for it while its connections are open.
	Holds int64
	// Keeps is how many of them the broker may still hold when Lasts has passed since its
	// connections were closed.
	Keeps int64
	// Grows is by how many bytes the process may grow, at the peak, with its garbage; 0: the limit
	// of the process is the only one.
	Grows int64
	// Part is the percentage of the attack that is enough to show quickly whether its memory limit
	// holds; 0 means that there is none.
	Part int
	// TLS: its connections use TLS, without a login.
	TLS bool
	// prepare creates what the attack needs, before it starts; nil means nothing.
	prepare func(ctx context.Context, c *Conn, m *Attacker) error
	// run attacks until ctx ends, or until everything that the broker must hold is sent.
	run func(ctx context.Context, m *Attacker) error
}

// Lasts is how long after its connections were closed the broker may hold more for an attack than
// Keeps.
const Lasts = 20 * time.Second

// Limits that most attacks share. A broker's garbage, pools and caches vary by the first of them.
const (
	little  = 16 << 20
	some    = 32 << 20
	budget  = 64 << 20 // of the memory that a budget counts
	idleFor = 300_000  // milliseconds; the longest wait that a client may request
)

// Prepare creates what the attack needs.
func (a Attack) Prepare(ctx context.Context, m *Attacker) error {
	if a.prepare == nil {
		return nil
	}
	c, err := Dial(ctx, m.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // all requests have been answered
	return a.prepare(ctx, c, m)
}

// Run attacks until ctx ends, or until everything that the broker must hold is sent. The
// connections stay open.
func (a Attack) Run(ctx context.Context, m *Attacker) error { return a.run(ctx, m) }

// Attacks returns all attacks.
func Attacks() []Attack {
	var all []Attack
	all = append(all, frameAttacks()...)
	all = append(all, connectionAttacks()...)
	all = append(all, recordAttacks()...)
	all = append(all, fetchAttacks()...)
	all = append(all, groupAttacks()...)
	all = append(all, shareAttacks()...)
	all = append(all, offsetAttacks()...)
	all = append(all, fieldAttacks()...)
	all = append(all, entryAttacks()...)
	all = append(all, transactionAttacks()...)
	all = append(all, telemetryAttacks()...)
	return append(all, adminAttacks()...)
}
